//! Job packages, the archives and files that a container profile names: every rabbit of a run has them before any
//! container of the run starts.
//!
//! For each rabbit the engine creates a NodeContainers that lists only packages, even where Kubernetes
//! runs the containers. The engine deletes these objects once the last container is gone, and the agents
//! then delete the packages.

use containers::{on_rabbit, outcome::State};
use k8s_openapi::jiff::Timestamp;

use super::{Part, run::Parts, wait_until_ready};
use crate::{change::Change, objects::view::Containers as Objects, progress::Progress};

/// Makes all rabbits of the run fetch the job packages, and waits until every rabbit has all of them.
pub(super) fn bring(existing: &Objects, parts: &Parts<'_>, now: Timestamp) -> Progress {
    // The run has no attempt number here, because all attempts use the same packages.
    let run = parts.run(&[], None);
    let name = on_rabbit::packages_name(&run);
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for (place, rabbit) in run.rabbits().enumerate() {
        match existing.packages.get(&(rabbit.to_owned(), name.clone())) {
            Some(package) => there.push(Part::Agent(package)),
            None => missing.extend(on_rabbit::packages(&run, place)),
        }
    }
    if !missing.is_empty() {
        return Progress::default().with(missing.iter().map(Change::create));
    }
    // Once every rabbit has fetched the packages, a deadline that passes is no error.
    let is_in_place = there.iter().all(|part| part.state() == State::Ready);
    if is_in_place { Progress::default() } else { wait_until_ready(existing, &there, now) }
}

/// Returns the objects of the rabbits that have not fetched the job packages yet.
pub(super) fn under_way(existing: &Objects) -> impl Iterator<Item = Part<'_>> {
    let all = existing.packages.values().map(|package| Part::Agent(package));
    all.filter(|part| part.state() != State::Ready)
}

/// Deletes the packages' objects. An agent keeps a package that another run uses.
pub(super) fn remove(existing: &Objects) -> Progress {
    if existing.packages.is_empty() {
        return Progress::default();
    }
    let rabbits = existing.packages.keys().map(|(rabbit, _)| rabbit.as_str());
    let changes = existing.packages.values().filter_map(|package| Change::delete(&**package));
    Progress::wait_on("removal of packages on", rabbits).with(changes)
}

//! Packages: on every rabbit of a run before anything of the run starts on one.
//!
//! The engine makes one NodeContainers with packages alone for each rabbit, whoever runs the containers. It deletes them, and the
//! agents the packages, once the last container is gone.

use containers::{on_rabbit, outcome::State};
use k8s_openapi::jiff::Timestamp;

use super::{Part, ready, run::Parts};
use crate::{
    change::Change,
    progress::{Progress, some_of},
    view::Containers as Objects,
};

/// Has the packages brought to the rabbits, and waits until every one of them has all.
pub(super) fn brought(of: &Objects, parts: &Parts<'_>, now: Timestamp) -> Progress {
    // Those of all attempts.
    let run = parts.run(&[], None);
    let name = on_rabbit::packages_name(&run);
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for (place, rabbit) in run.rabbits().enumerate() {
        match of.packages.get(&(rabbit.to_owned(), name.clone())) {
            Some(one) => there.push(Part::Agent(one)),
            None => missing.extend(on_rabbit::packages(&run, place)),
        }
    }
    if !missing.is_empty() {
        return Progress::default().with(missing.iter().map(Change::create));
    }
    // What is in place is late no more: its deadline may stand.
    let is_in_place = there.iter().all(|part| part.state() == State::Ready);
    if is_in_place { Progress::default() } else { ready(of, &there, now) }
}

/// What rabbits still bring.
pub(super) fn under_way(of: &Objects) -> impl Iterator<Item = Part<'_>> {
    let all = of.packages.values().map(|one| Part::Agent(one));
    all.filter(|part| part.state() != State::Ready)
}

/// Removes the packages from the rabbits, where no other run uses them.
pub(super) fn removed(of: &Objects) -> Progress {
    if of.packages.is_empty() {
        return Progress::default();
    }
    let rabbits = some_of(of.packages.keys().map(|(rabbit, _)| rabbit.as_str()));
    let changes = of.packages.values().filter_map(|one| Change::delete(&**one));
    Progress::wait(format!("removal of packages on {rabbits}")).with(changes)
}

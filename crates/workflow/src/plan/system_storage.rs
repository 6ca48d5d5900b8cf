//! NnfSystemStorage: storage of the site itself, outside any job. Each chosen rabbit makes one allocation for all of its
//! chosen computes, or one for each of them; the computes get access, and mount it if the storage says so.
//!
//! * A rabbit that is left out because it is disabled or not Ready keeps everything as it is: its computes may use the
//!   storage, and a rabbit that is silent for a minute must not cost them their lock space.
//! * Computes that are no longer chosen unmount and lose access. Rabbits that are no longer chosen keep their
//!   allocations, because only the deletion of the NnfSystemStorage removes data.
//! * Objects of other controllers stay: the engine recognises its own by their labels.

mod check;
mod choice;
mod clients;
mod presented;
mod rabbits;

use api::{NnfSystemStorageStatus, ResourceError, Severity, names::finalizer};
use controller::has_finalizer;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use self::{choice::Choice, presented::Presented};
use crate::{
    change::Change,
    objects::{system_storage::SystemStorageView, view::Group},
    plan::{
        Plan, fail_if_refused, mounts::unreadable_error, name_silent, plan_orphan, teardown,
        without_finalizer,
    },
    progress::{Outcome, Progress, transient_error},
};

/// Plans the changes for one system storage.
#[must_use]
pub fn plan(view: &SystemStorageView<'_>, now: Timestamp) -> Plan {
    let object = &*view.object;
    if object.metadata.deletion_timestamp.is_some() {
        return remove(view).into();
    }
    if !has_finalizer(object, finalizer::NNF_SYSTEM_STORAGE) {
        let mut after = object.clone();
        after.finalizers_mut().push(finalizer::NNF_SYSTEM_STORAGE.to_owned());
        return Progress::default().with(Change::patch(object, &after)).into();
    }
    let presented = Presented::new(view, now);
    let mut silent_from = None;
    let progress = name_silent(&presented.view, serve(view, &presented), &mut silent_from, now);
    let outcome = fail_if_refused(&presented.view, progress.outcome.clone());
    let status = update_status(view, &outcome);
    let plan: Plan = Progress { outcome, ..progress }.with(status).into();
    Plan { replan_at: silent_from, ..plan }
}

/// Makes, attaches and mounts the storage.
fn serve(view: &SystemStorageView<'_>, presented: &Presented<'_>) -> Progress {
    if let Err(error) = check::request(view).and_then(|()| check::objects(view)) {
        return Progress::failed(error);
    }
    let Some(system) = &view.system else {
        let (namespace, name) = view.object.spec.system_configuration();
        return Progress::failed(minor_error(format!(
            "SystemConfiguration {namespace}/{name} does not exist: create it, or correct spec.systemConfiguration"
        )));
    };
    let choice = Choice::new(view, system);
    let Some(servers) = &view.storage.servers else {
        return Progress::default().with([Change::create(&presented.new_servers())]);
    };
    if let Err(error) =
        check::existing(view, servers, &choice).and_then(|()| check::exclusive(view, &choice))
    {
        return Progress::failed(error);
    }
    let made = rabbits::make(view, presented, servers, &choice);
    let served = clients::serve(view, presented, servers, &choice);
    let unreadable = unreadable_error(view.storage.unreadable.iter());
    let problems = choice.problems.into_iter().chain(unreadable).map(Progress::failed);
    problems.fold(made.and(served), Progress::and)
}

/// Removes the storage from all nodes, then the finalizer.
fn remove(view: &SystemStorageView<'_>) -> Progress {
    let object = &*view.object;
    if !has_finalizer(object, finalizer::NNF_SYSTEM_STORAGE) {
        return Progress::default();
    }
    if let Some(foreign) = view.foreign.as_deref().filter(|servers| check::is_of(servers, object)) {
        let error = check::foreign_error(foreign);
        let status = update_status(view, &Outcome::Failed(error.clone()));
        return Progress::failed(error).with(status);
    }
    let removed = teardown::remove_group(view.site, &view.storage);
    let leftovers = view.leftovers.iter().map(|group| remove_leftover(view, group));
    let progress = leftovers.fold(removed, Progress::and);
    if progress.outcome != Outcome::Done {
        let status = update_status(view, &progress.outcome);
        return progress.with(status);
    }
    let held = teardown::release_servers(&view.storage);
    progress.with(held.or_else(|| without_finalizer(object, finalizer::NNF_SYSTEM_STORAGE)))
}

fn remove_leftover(view: &SystemStorageView<'_>, group: &Group) -> Progress {
    let Plan { changes, outcomes, .. } = plan_orphan(view.site, group);
    let outcome = outcomes.into_iter().next().unwrap_or_default();
    Progress::from(outcome).with(changes)
}

/// Plans the change of the status; `None` when no change is needed.
fn update_status(view: &SystemStorageView<'_>, outcome: &Outcome) -> Option<Change> {
    let mut after = (*view.object).clone();
    let error = match outcome {
        Outcome::Failed(error) => Some(error.clone()),
        Outcome::Queued(why) => Some(minor_error(why.clone())),
        Outcome::Done | Outcome::Working | Outcome::Wait(_) => None,
    };
    after.status = Some(NnfSystemStorageStatus { ready: *outcome == Outcome::Done, error });
    Change::status(&*view.object, &after)
}

/// Returns an error that ends once a rabbit, compute or object changes.
fn minor_error(message: impl Into<String>) -> ResourceError {
    ResourceError { severity: Severity::Minor, ..transient_error(message) }
}

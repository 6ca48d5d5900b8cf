//! Reconciles one NodeContainers: reads the API, runs the plan with podman, writes the status.

use std::{collections::BTreeSet, sync::Arc};

use agent::error::Failure;
use api::{
    NodeContainers, NodeContainersStatus, ResourceError, names::finalizer,
    node_containers::NodeContainersState,
};
use controller::{
    Retry, has_finalizer,
    patch::{self, WriteError},
};
use daemon::chain;
use k8s_openapi::jiff::Timestamp;
use packages::Progress;
use storage::{Rounds, desired::ObjectUid};

use super::{
    Host,
    desired::{Desired, grace, uid_of},
    host::HostError,
    observed::{Logs, Observed},
    phase::Record,
    plan::{plan, removal},
    read,
    report::{initial_status, next_wake_up, record, report, unprepared_status},
    step::Step,
};
use crate::core::{Cache, Context, Pass};

/// Maximum number of rounds (observe, plan, apply) in one pass.
const ROUNDS: usize = 16;

/// The object of a pass, and the conditions for which its containers wait.
#[derive(Debug)]
pub struct ContainersView {
    pub object: Arc<NodeContainers>,
    /// Path of a storage that is not mounted on this rabbit.
    pub unmounted: Option<String>,
}

impl ContainersView {
    /// Returns the view of an object. `mounted` has the uids of the mounted ClientMounts.
    pub fn new(object: Arc<NodeContainers>, cache: &Cache, mounted: &BTreeSet<String>) -> Self {
        let unmounted = cache.unmounted(&object.spec.storages, mounted);
        Self { object, unmounted }
    }
}

/// Brings the containers of one object closer to the object's spec. A deleted object loses the agent's finalizer once
/// its containers and files are removed.
pub async fn reconcile(
    context: &Context,
    host: &Arc<dyn Host>,
    view: &ContainersView,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let object = &*view.object;
    if object.metadata.deletion_timestamp.is_some() {
        return remove(context, host, object, pass).await;
    }
    let Some((mut desired, mut object)) = begin(context, object, pass).await? else {
        return Ok(());
    };
    loop {
        let recorded = record(&object, Timestamp::now());
        if recorded.end == Some(NodeContainersState::Unprepared) {
            stop_fetching(context, &desired);
            return Ok(());
        }
        let packages = fetch_packages(context, &desired, &recorded, &object).await;
        if let Progress::Impossible(why) = &packages
            && recorded.attempt == 0
        {
            pass.add_failure(&object, &Failure::input(why.clone()));
            return write_status(context, &object, unprepared_status(&recorded, why), pass)
                .await
                .map(drop);
        }
        let observed = observe(host, desired.uid, logs_to_read(&recorded)).await;
        let read = match &observed {
            Ok(observed) => read::read_missing(context, &mut desired, &recorded, observed).await,
            Err(_) => Ok(()),
        };
        if let Err(why) = &read {
            pass.add_failure(&object, &failure(why.clone()));
        }
        let blocker = start_blocker(view, packages).or(read.err());
        let converged = converge(host, &desired, &recorded, blocker.is_none(), observed).await;
        if let Some(trouble) = &converged.trouble {
            pass.add_failure(&object, &failure(trouble.clone()));
        }
        let Some(observed) = converged.observed else {
            return set_message(context, &object, converged.trouble.unwrap_or_default(), pass)
                .await;
        };
        let now = Timestamp::now();
        let trouble = converged.trouble.or(blocker);
        let status = report(&desired, &observed, &recorded, trouble.as_deref(), now);
        let is_newly_late = status.deadline_exceeded != recorded.is_late;
        object = write_status(context, &object, status, pass).await?;
        if !is_newly_late {
            pass.holders.extend(observed.monitors());
            pass.again = next_wake_up(&desired, &observed, &record(&object, now), now);
            return Ok(());
        }
    }
}

/// Validates an object, then stores the agent's finalizer and the time from which the object's deadlines count. Returns
/// `None` for an invalid object, after reporting the error.
pub(super) async fn begin(
    context: &Context,
    object: &NodeContainers,
    pass: &mut Pass,
) -> Result<Option<(Desired, NodeContainers)>, WriteError> {
    let desired = match Desired::from_object(object, &context.site.roots) {
        Ok(desired) => desired,
        Err(error) => {
            let failure = Failure::input(chain(&error));
            return pass.refuse(context, object, &failure, refused_status).await.map(|()| None);
        }
    };
    let mut object = pass.with_finalizer(context, object, finalizer::NODE_CONTAINERS).await?;
    if object.status.as_ref().is_none_or(|status| status.start_time.is_none()) {
        object = write_status(context, &object, initial_status(Timestamp::now()), pass).await?;
    }
    Ok(Some((desired, object)))
}

/// Returns the reason why no container may start yet; `None` if containers may start.
pub fn start_blocker(view: &ContainersView, packages: Progress) -> Option<String> {
    let storage = view.unmounted.as_ref();
    let storage = storage.map(|path| format!("storage {path} is not mounted on this rabbit"));
    storage.or(match packages {
        Progress::InPlace => None,
        Progress::Awaited(why) | Progress::Impossible(why) => Some(why),
    })
}

/// Fetches the job packages, as long as containers may still start.
async fn fetch_packages(
    context: &Context,
    desired: &Desired,
    record: &Record,
    object: &NodeContainers,
) -> Progress {
    let packages = context.packages.clone().filter(|_| !desired.packages.is_empty());
    let Some(packages) = packages else { return Progress::InPlace };
    if record.end.is_some() || record.is_late {
        packages.leave(desired.uid.into());
        // Before the first attempt the status has a message that says why no attempt has started: the message stays.
        let why = object.status.as_ref().map(|status| status.message.clone());
        let why = why.filter(|why| record.attempt == 0 && !why.is_empty());
        return why.map_or(Progress::InPlace, Progress::Awaited);
    }
    let (uid, wanted) = (desired.uid.into(), desired.packages.clone());
    let brought = daemon::blocking(move || packages.bring(uid, &wanted)).await;
    brought.unwrap_or_else(|error| Progress::Awaited(chain(&error)))
}

fn stop_fetching(context: &Context, desired: &Desired) {
    if let Some(packages) = &context.packages {
        packages.leave(desired.uid.into());
    }
}

/// Result of the plans of one pass.
#[derive(Debug)]
struct Converged {
    /// The last observation; `None` if podman did not answer.
    observed: Option<Observed>,
    /// Why a step or an observation failed.
    trouble: Option<String>,
}

/// Returns the logs to read: logs of running containers only if a request waits for them.
fn logs_to_read(record: &Record) -> Logs {
    if record.requested.is_some() { Logs::All } else { Logs::OfEnded }
}

async fn observe(host: &Arc<dyn Host>, uid: ObjectUid, logs: Logs) -> Result<Observed, String> {
    let host = Arc::clone(host);
    daemon::blocking(move || host.observe(uid, logs)).await.map_err(|error| chain(&error))
}

/// Plans, applies and observes until nothing is left to do, or something fails.
async fn converge(
    host: &Arc<dyn Host>,
    desired: &Desired,
    record: &Record,
    may_start: bool,
    first: Result<Observed, String>,
) -> Converged {
    let mut observed = match first {
        Ok(observed) => observed,
        Err(trouble) => return Converged { observed: None, trouble: Some(trouble) },
    };
    let (host, desired, record) = (Arc::clone(host), desired.clone(), record.clone());
    let work = move || {
        let mut rounds = Rounds::new(format!("NodeContainers {}", desired.uid), ROUNDS);
        let trouble = loop {
            let steps = plan(&desired, &observed, &record, may_start, Timestamp::now());
            match rounds.begin(&steps) {
                Ok(true) => {}
                ended => break ended.err().map(|error| error.to_string()),
            }
            let lustre = &desired.spec.global_lustre;
            let applied = apply_all(&*host, &steps, lustre).err().map(|error| chain(&error));
            let seen =
                host.observe(desired.uid, logs_to_read(&record)).map_err(|error| chain(&error));
            let trouble = applied.or(seen.as_ref().err().cloned());
            observed = seen.unwrap_or(observed);
            if trouble.is_some() {
                break trouble;
            }
        };
        Converged { observed: Some(observed), trouble }
    };
    daemon::blocking(work).await
}

/// Applies the steps. Before each step that starts a container or prepares a start, checks that the global Lustre
/// file systems are mounted.
fn apply_all(host: &dyn Host, steps: &[Step], lustre: &[String]) -> Result<(), HostError> {
    for step in steps {
        if step.starts() {
            host.check_lustre(lustre)?;
        }
        host.apply(step)?;
        log::info!("{step}");
    }
    Ok(())
}

/// Returns a failure that the agent retries later: podman may succeed later, for example once the registry answers or
/// a port is free.
fn failure(trouble: String) -> Failure {
    Failure { retry: Retry::Later, ..Failure::waiting(trouble) }
}

async fn remove(
    context: &Context,
    host: &Arc<dyn Host>,
    object: &NodeContainers,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    if !has_finalizer(object, finalizer::NODE_CONTAINERS) {
        return Ok(());
    }
    let (uid, grace) = (uid_of(object), grace(&object.spec));
    let (host, packages) = (Arc::clone(host), context.packages.clone());
    let removal_result = daemon::blocking(move || -> Result<(), String> {
        let uid = uid.map_err(|error| chain(&error))?;
        let mut rounds = Rounds::new(format!("NodeContainers {uid}"), ROUNDS);
        loop {
            let seen = host.observe(uid, Logs::OfEnded).map_err(|error| chain(&error))?;
            let steps = removal(uid, grace, &seen);
            if !rounds.begin(&steps).map_err(|error| error.to_string())? {
                // The job packages are released last, when no container mounts them any more.
                let released = packages.as_ref().map(|packages| packages.release(uid.into()));
                return released.transpose().map(drop).map_err(|error| chain(&error));
            }
            apply_all(&*host, &steps, &[]).map_err(|error| chain(&error))?;
        }
    });
    end_removal(context, object, removal_result.await, pass).await
}

/// Removes the agent's finalizer after a removal that succeeded, and reports one that failed.
pub(super) async fn end_removal(
    context: &Context,
    object: &NodeContainers,
    removed: Result<(), String>,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let Err(why) = removed else {
        return pass.without_finalizer(context, object, finalizer::NODE_CONTAINERS).await;
    };
    pass.add_failure(object, &failure(why.clone()));
    set_message(context, object, why, pass).await
}

async fn set_message(
    context: &Context,
    object: &NodeContainers,
    message: String,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let status = object.status.clone().unwrap_or_default();
    write_status(context, object, NodeContainersStatus { message, ..status }, pass).await.map(drop)
}

pub(super) async fn write_status(
    context: &Context,
    object: &NodeContainers,
    status: NodeContainersStatus,
    pass: &mut Pass,
) -> Result<NodeContainers, WriteError> {
    let mut after = object.clone();
    after.status = Some(status);
    let written = patch::status(&context.client, object, &after).await?;
    Ok(pass.stored(object, written))
}

fn refused_status(object: &NodeContainers, error: ResourceError) -> NodeContainersStatus {
    let status = object.status.clone().unwrap_or_default();
    NodeContainersStatus { error: Some(error), ..status }
}

#[cfg(test)]
mod tests;

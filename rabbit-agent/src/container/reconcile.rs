//! Joins what is pure with podman and the API.

use std::sync::Arc;

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
use storage::desired::ObjectUid;

use super::{
    Host,
    desired::{Desired, grace, uid_of},
    host::HostError,
    observed::{Logs, Observed},
    phase::Record,
    plan::{plan, removal},
    read,
    report::{again, begun, record, report, unprepared},
    step::Step,
};
use crate::pass::{Context, Pass};

/// Plans for one pass, each from another look.
const ROUNDS: usize = 16;

/// What a pass goes by.
#[derive(Debug)]
pub struct View {
    pub object: Arc<NodeContainers>,
    /// Storage that is not mounted on this rabbit.
    pub unmounted: Option<String>,
}

/// Brings the containers of one object on their way. A deleted object loses the finalizer once nothing of them is left.
pub async fn reconcile(
    context: &Context,
    host: &Arc<dyn Host>,
    view: &View,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let object = &*view.object;
    if object.metadata.deletion_timestamp.is_some() {
        return remove(context, host, object, pass).await;
    }
    let Some((mut desired, mut object)) = taken_up(context, object, pass).await? else {
        return Ok(());
    };
    loop {
        let recorded = record(&object, Timestamp::now());
        if recorded.end == Some(NodeContainersState::Unprepared) {
            leave(context, &desired);
            return Ok(());
        }
        let packages = bring(context, &desired, &recorded, &object).await;
        if let Progress::Impossible(why) = &packages
            && recorded.attempt == 0
        {
            pass.failed(&object, &Failure::input(why.clone()));
            return set(context, &object, unprepared(&recorded, why), pass).await.map(drop);
        }
        let seen = look(host, desired.uid, logs(&recorded)).await;
        let lacked = match &seen {
            Ok(seen) => read::missing(context, &mut desired, &recorded, seen).await,
            Err(_) => Ok(()),
        };
        if let Err(why) = &lacked {
            pass.failed(&object, &failure(why.clone()));
        }
        let waits = waits(view, packages).or(lacked.err());
        let converged = converge(host, &desired, &recorded, waits.is_none(), seen).await;
        if let Some(trouble) = &converged.trouble {
            pass.failed(&object, &failure(trouble.clone()));
        }
        let Some(observed) = converged.observed else {
            return set_message(context, &object, converged.trouble.unwrap_or_default(), pass)
                .await;
        };
        let now = Timestamp::now();
        let trouble = converged.trouble.or(waits);
        let status = report(&desired, &observed, &recorded, trouble.as_deref(), now);
        let is_news = status.deadline_exceeded != recorded.is_late;
        object = set(context, &object, status, pass).await?;
        if !is_news {
            pass.holders.extend(observed.monitors());
            pass.again = again(&desired, &observed, &record(&object, now), now);
            return Ok(());
        }
    }
}

/// What an object asks for, once its finalizer and the moment from which its deadlines count are stored; `None` where no agent can
/// carry it out, which is reported.
pub(super) async fn taken_up(
    context: &Context,
    object: &NodeContainers,
    pass: &mut Pass,
) -> Result<Option<(Desired, NodeContainers)>, WriteError> {
    let desired = match Desired::of(object, &context.site.roots) {
        Ok(desired) => desired,
        Err(error) => {
            let failure = Failure::input(chain(&error));
            return pass.refuse(context, object, &failure, refused).await.map(|()| None);
        }
    };
    let mut object = pass.with_finalizer(context, object, finalizer::NODE_CONTAINERS).await?;
    if object.status.as_ref().is_none_or(|status| status.start_time.is_none()) {
        object = set(context, &object, begun(Timestamp::now()), pass).await?;
    }
    Ok(Some((desired, object)))
}

/// What keeps containers from being started.
fn waits(view: &View, packages: Progress) -> Option<String> {
    let storage = view.unmounted.as_ref();
    let storage = storage.map(|path| format!("storage {path} is not mounted on this rabbit"));
    storage.or(match packages {
        Progress::InPlace => None,
        Progress::Awaited(why) | Progress::Impossible(why) => Some(why),
    })
}

/// Sees to the packages while containers may be started.
async fn bring(
    context: &Context,
    desired: &Desired,
    record: &Record,
    object: &NodeContainers,
) -> Progress {
    let packages = context.packages.clone().filter(|_| !desired.packages.is_empty());
    let Some(packages) = packages else { return Progress::InPlace };
    if record.end.is_some() || record.is_late {
        packages.leave(desired.uid.into());
        // While no attempt has been started, the status keeps the message that says why.
        let why = object.status.as_ref().map(|status| status.message.clone());
        let why = why.filter(|why| record.attempt == 0 && !why.is_empty());
        return why.map_or(Progress::InPlace, Progress::Awaited);
    }
    let (uid, wanted) = (desired.uid.into(), desired.packages.clone());
    let brought = daemon::blocking(move || packages.bring(uid, &wanted)).await;
    brought.unwrap_or_else(|error| Progress::Awaited(chain(&error)))
}

fn leave(context: &Context, desired: &Desired) {
    if let Some(packages) = &context.packages {
        packages.leave(desired.uid.into());
    }
}

/// What became of the plans of a pass.
#[derive(Debug)]
struct Converged {
    observed: Option<Observed>,
    /// What the node did not do.
    trouble: Option<String>,
}

/// The logs that are to be told.
fn logs(record: &Record) -> Logs {
    if record.asked.is_some() { Logs::All } else { Logs::OfEnded }
}

async fn look(host: &Arc<dyn Host>, uid: ObjectUid, logs: Logs) -> Result<Observed, String> {
    let host = Arc::clone(host);
    daemon::blocking(move || host.observe(uid, logs)).await.map_err(|error| chain(&error))
}

/// Plans, applies and observes until nothing is left to do, or something fails.
async fn converge(
    host: &Arc<dyn Host>,
    desired: &Desired,
    record: &Record,
    may_start: bool,
    seen: Result<Observed, String>,
) -> Converged {
    let mut observed = match seen {
        Ok(observed) => observed,
        Err(trouble) => return Converged { observed: None, trouble: Some(trouble) },
    };
    let (host, desired, record) = (Arc::clone(host), desired.clone(), record.clone());
    let work = move || {
        let mut round = 0;
        loop {
            let steps = plan(&desired, &observed, &record, may_start, Timestamp::now());
            let trouble = steps.first().filter(|_| round == ROUNDS).map(not_converging);
            if steps.is_empty() || trouble.is_some() {
                return Converged { observed: Some(observed), trouble };
            }
            let lustre = &desired.spec.global_lustre;
            let applied = apply_all(&*host, &steps, lustre).err().map(|error| chain(&error));
            let seen = host.observe(desired.uid, logs(&record)).map_err(|error| chain(&error));
            let trouble = applied.or(seen.as_ref().err().cloned());
            observed = seen.unwrap_or(observed);
            if trouble.is_some() {
                return Converged { observed: Some(observed), trouble };
            }
            round += 1;
        }
    };
    daemon::blocking(work).await
}

fn not_converging(next: &Step) -> String {
    format!("still not as desired after {ROUNDS} rounds, next would be: {next}")
}

/// Nothing starts before these Lustre file systems are there.
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

/// What the node did not do it may do later: fetch an image, open a port.
pub(super) fn failure(trouble: String) -> Failure {
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
    let (of, grace) = (uid_of(object), grace(&object.spec));
    let (host, packages) = (Arc::clone(host), context.packages.clone());
    let gone = daemon::blocking(move || -> Result<(), String> {
        let uid = of.map_err(|error| chain(&error))?;
        for _ in 0..ROUNDS {
            let seen = host.observe(uid, Logs::OfEnded).map_err(|error| chain(&error))?;
            let steps = removal(uid, grace, &seen);
            if steps.is_empty() {
                // No container has them mounted any more.
                let released = packages.as_ref().map(|packages| packages.release(uid.into()));
                return released.transpose().map(drop).map_err(|error| chain(&error));
            }
            apply_all(&*host, &steps, &[]).map_err(|error| chain(&error))?;
        }
        Err(format!("containers {uid} are there again after each removal"))
    });
    match gone.await {
        Ok(()) => pass.without_finalizer(context, object, finalizer::NODE_CONTAINERS).await,
        Err(why) => {
            pass.failed(object, &failure(why.clone()));
            set_message(context, object, why, pass).await
        }
    }
}

pub(super) async fn set_message(
    context: &Context,
    object: &NodeContainers,
    message: String,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let status = object.status.clone().unwrap_or_default();
    set(context, object, NodeContainersStatus { message, ..status }, pass).await.map(drop)
}

pub(super) async fn set(
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

fn refused(object: &NodeContainers, error: ResourceError) -> NodeContainersStatus {
    let status = object.status.clone().unwrap_or_default();
    NodeContainersStatus { error: Some(error), ..status }
}

#[cfg(test)]
mod tests;

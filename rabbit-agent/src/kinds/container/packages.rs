//! Reconciles a NodeContainers that asks for job packages only. The containers run under Kubernetes, and start once
//! every rabbit of their run has the job packages.

use agent::error::Failure;
use api::{
    NodeContainers, NodeContainersStatus,
    names::finalizer,
    node_containers::{NodeContainersState, PackagePath},
};
use containers::JobPackage;
use controller::{has_finalizer, patch::WriteError};
use daemon::chain;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use packages::{JobPackages, Progress};

use super::{
    desired::{Desired, uid_of},
    phase::{Record, deadline},
    reconcile::{begin, end_removal, write_status},
    report::{just_after, record, unprepared_status},
};
use crate::core::{Context, Pass};

/// Fetches the job packages of one object. A deleted object loses the agent's finalizer once it uses no
/// job package any more.
pub async fn reconcile(
    context: &Context,
    packages: &JobPackages,
    object: &NodeContainers,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    if object.metadata.deletion_timestamp.is_some() {
        return remove(context, packages, object, pass).await;
    }
    let Some((desired, object)) = begin(context, object, pass).await? else {
        return Ok(());
    };
    let recorded = record(&object, Timestamp::now());
    let uid = desired.uid.into();
    if recorded.end.is_some() {
        packages.leave(uid);
        return Ok(());
    }
    let (own, wanted) = (packages.clone(), desired.packages.clone());
    let brought = daemon::blocking(move || own.bring(uid, &wanted)).await;
    let progress = brought.unwrap_or_else(|error| Progress::Awaited(chain(&error)));
    let status = report(&desired, &recorded, &progress, packages, Timestamp::now());
    match (&status.state, progress) {
        (_, Progress::Impossible(why)) => pass.add_failure(&object, &Failure::input(why)),
        (NodeContainersState::Starting, _) => {
            pass.again = deadline(&desired, &recorded).and_then(just_after);
        }
        _ => {}
    }
    if status.state == NodeContainersState::TooLate {
        packages.leave(uid);
    }
    write_status(context, &object, status, pass).await.map(drop)
}

/// Returns the new status.
fn report(
    desired: &Desired,
    record: &Record,
    progress: &Progress,
    packages: &JobPackages,
    now: Timestamp,
) -> NodeContainersStatus {
    let is_late = || deadline(desired, record).is_some_and(|deadline| deadline <= now);
    let (state, message) = match progress {
        Progress::Impossible(why) => return unprepared_status(record, why),
        Progress::InPlace => (NodeContainersState::Ready, String::new()),
        Progress::Awaited(why) if is_late() => (NodeContainersState::TooLate, why.clone()),
        Progress::Awaited(why) => (NodeContainersState::Starting, why.clone()),
    };
    let path = |package: &JobPackage| PackagePath {
        name: package.name.clone(),
        path: packages.content(package).display().to_string(),
    };
    let places = desired.packages.iter().filter(|_| state == NodeContainersState::Ready).map(path);
    NodeContainersStatus {
        deadline_exceeded: state == NodeContainersState::TooLate,
        packages: places.collect(),
        start_time: Some(Time(record.start)),
        state,
        message,
        ..NodeContainersStatus::default()
    }
}

async fn remove(
    context: &Context,
    packages: &JobPackages,
    object: &NodeContainers,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    if !has_finalizer(object, finalizer::NODE_CONTAINERS) {
        return Ok(());
    }
    let (uid, packages) = (uid_of(object), packages.clone());
    let released = daemon::blocking(move || -> Result<(), String> {
        let uid = uid.map_err(|error| chain(&error))?;
        packages.release(uid.into()).map_err(|error| chain(&error))
    });
    end_removal(context, object, released.await, pass).await
}

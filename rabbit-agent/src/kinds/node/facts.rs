//! Reads the facts that health checks need in addition to the drives. The check of the volume groups also removes
//! leftovers of deleted groups.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use agent::volumes::Volumes;
use storage::{
    Desired, Observed,
    desired::ObjectUid,
    health::{Facts, GroupFacts},
};
use uuid::Uuid;

use crate::{core::Context, health::HealthState, kinds::container::observed::Logs};

/// Longest wait for the volume groups, and for podman: a command that hangs must not keep the agent
/// from reporting everything else.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads the facts of the node. Does not clean up volume groups of `owners`: the passes over the owners' objects handle
/// these groups. Starts no LVM tools at a site without logical volumes.
pub(super) async fn facts(
    context: &Context,
    health: &HealthState,
    owners: &BTreeSet<ObjectUid>,
) -> Option<Facts> {
    let probe = health.probe()?;
    let (mut facts, seen, podman_fault) = tokio::join!(
        daemon::blocking(move || probe.facts()),
        async {
            if context.site.volumes == Volumes::Plain {
                return None;
            }
            Some(volumes(context, health, owners).await)
        },
        podman_fault(context),
    );
    match seen {
        Some(Ok(seen)) => {
            facts.groups = Some(seen.groups.iter().filter_map(GroupFacts::from_group).collect());
        }
        Some(Err(why)) => facts.unread.push(format!("volume groups: {why}")),
        None => {}
    }
    facts.unread.extend(podman_fault);
    Some(facts)
}

/// Returns the reason why no container can start on this rabbit; `None` if containers can start, or if the agent runs
/// no containers. Asks podman for the containers of an object that does not exist.
async fn podman_fault(context: &Context) -> Option<String> {
    let host = context.containers.clone()?;
    let no_object = ObjectUid::from(Uuid::nil());
    let observation = daemon::blocking(move || host.observe(no_object, Logs::OfEnded));
    let why = match tokio::time::timeout(PATIENCE, observation).await {
        Ok(Ok(_)) => return None,
        Ok(Err(error)) => daemon::chain(&error),
        Err(_) => format!("podman did not answer within {} s", PATIENCE.as_secs()),
    };
    Some(format!("{why}; no container starts here until podman answers: try podman pod ps"))
}

/// Reads the volume groups. A read that hangs keeps its thread, and until the read ends the agent starts no other read.
async fn volumes(
    context: &Context,
    health: &HealthState,
    owners: &BTreeSet<ObjectUid>,
) -> Result<Observed, String> {
    let turn = health.lock_groups().ok_or("the previous check has not ended")?;
    let (converger, unit) = (Arc::clone(&context.converger), Desired::OnlyVolumes(owners.clone()));
    let check = daemon::blocking(move || {
        let converged = converger.converge(&unit);
        drop(turn);
        converged
    });
    match tokio::time::timeout(PATIENCE, check).await {
        Ok(Ok(converged)) => Ok(converged.observed),
        Ok(Err(error)) => Err(daemon::chain(&error)),
        Err(_) => Err(format!("the check did not end within {} s", PATIENCE.as_secs())),
    }
}

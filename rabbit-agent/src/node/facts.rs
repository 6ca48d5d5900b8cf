//! Reads what health checks need beside the drives. The check of the volume groups also removes leftovers of groups
//! that are gone.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use agent::volumes::Volumes;
use storage::{
    Desired, Observed,
    desired::ObjectUid,
    health::{Facts, GroupFacts},
};

use crate::{health::HealthState, pass::Context};

/// How long a check waits for the volume groups: a drive that hangs must not hide the state of everything else.
const PATIENCE: Duration = Duration::from_secs(10);

/// Facts of the node. Volume groups of `owners` are left to the passes over their objects. A site without logical
/// volumes needs no LVM tools, so the agent starts none there.
pub(super) async fn facts(
    context: &Context,
    health: &HealthState,
    owners: &BTreeSet<ObjectUid>,
) -> Option<Facts> {
    let probe = health.probe()?;
    if context.site.volumes == Volumes::Plain {
        return Some(daemon::blocking(move || probe.facts()).await);
    }
    let (mut facts, seen) =
        tokio::join!(daemon::blocking(move || probe.facts()), volumes(context, health, owners));
    match seen {
        Ok(seen) => facts.groups = Some(seen.groups.iter().filter_map(GroupFacts::of).collect()),
        Err(why) => facts.unread.push(format!("volume groups: {why}")),
    }
    Some(facts)
}

/// Reads the volume groups. A read that hangs keeps its thread, and the agent starts no other meanwhile.
async fn volumes(
    context: &Context,
    health: &HealthState,
    owners: &BTreeSet<ObjectUid>,
) -> Result<Observed, String> {
    let turn = health.lock_groups().ok_or("the look before has not ended")?;
    let (converger, unit) = (Arc::clone(&context.converger), Desired::OnlyVolumes(owners.clone()));
    let look = daemon::blocking(move || {
        let converged = converger.converge(&unit);
        drop(turn);
        converged
    });
    match tokio::time::timeout(PATIENCE, look).await {
        Ok(Ok(converged)) => Ok(converged.observed),
        Ok(Err(error)) => Err(daemon::chain(&error)),
        Err(_) => Err(format!("the look did not end within {} s", PATIENCE.as_secs())),
    }
}

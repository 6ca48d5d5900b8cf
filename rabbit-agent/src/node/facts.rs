//! A look at the node beside its drives, and at its volume groups: what remains of those that are gone is removed.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use clientmount_agent::volumes::Volumes;
use storage::{
    Desired, Observed,
    desired::ObjectUid,
    health::{Facts, GroupFacts},
};

use crate::{health::HealthState, pass::Context};

/// How long volume groups are waited for: one on a drive that hangs must not hide how the others are.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is to be told of the node. Objects see to the volumes of `owners` themselves. A site without logical volumes may have
/// no tool of LVM's to look with, and has nothing to look at.
pub(super) async fn facts(
    context: &Context,
    health: &HealthState,
    owners: &BTreeSet<ObjectUid>,
) -> Option<Facts> {
    let probe = health.probe()?;
    if context.site.volumes == Volumes::Plain {
        return Some(context.blocking(move || probe.facts()).await);
    }
    let (mut facts, seen) =
        tokio::join!(context.blocking(move || probe.facts()), volumes(context, health, owners));
    match seen {
        Ok(seen) => facts.groups = Some(seen.groups.iter().filter_map(GroupFacts::of).collect()),
        Err(why) => facts.unread.push(format!("volume groups: {why}")),
    }
    Some(facts)
}

/// A look that hangs is left to end by itself, and until then no other is begun.
async fn volumes(
    context: &Context,
    health: &HealthState,
    owners: &BTreeSet<ObjectUid>,
) -> Result<Observed, String> {
    let turn = health.lock_groups().ok_or("the look before has not ended")?;
    let (converger, unit) = (Arc::clone(&context.converger), Desired::OnlyVolumes(owners.clone()));
    let look = context.blocking(move || {
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

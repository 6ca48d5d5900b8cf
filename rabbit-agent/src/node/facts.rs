//! Reads what health checks need beside the drives. The check of the volume groups also removes leftovers of groups
//! that are gone.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use agent::volumes::Volumes;
use storage::{
    Desired, Observed,
    desired::ObjectUid,
    health::{Facts, GroupFacts},
};
use uuid::Uuid;

use crate::{container::observed::Logs, health::HealthState, pass::Context};

/// How long a check waits for the volume groups, and for podman: what hangs must not hide the state of everything else.
const PATIENCE: Duration = Duration::from_secs(10);

/// Facts of the node. Volume groups of `owners` are left to the passes over their objects. A site without logical
/// volumes needs no LVM tools, so the agent starts none there.
pub(super) async fn facts(
    context: &Context,
    health: &HealthState,
    owners: &BTreeSet<ObjectUid>,
) -> Option<Facts> {
    let probe = health.probe()?;
    let (mut facts, seen, unable) = tokio::join!(
        daemon::blocking(move || probe.facts()),
        async {
            if context.site.volumes == Volumes::Plain {
                return None;
            }
            Some(volumes(context, health, owners).await)
        },
        podman(context),
    );
    match seen {
        Some(Ok(seen)) => {
            facts.groups = Some(seen.groups.iter().filter_map(GroupFacts::from_group).collect());
        }
        Some(Err(why)) => facts.unread.push(format!("volume groups: {why}")),
        None => {}
    }
    facts.unread.extend(unable);
    Some(facts)
}

/// Why no container can start on this rabbit; `None` also where the agent runs none. The agent asks podman for the containers of an
/// object that there is not.
async fn podman(context: &Context) -> Option<String> {
    let host = context.containers.clone()?;
    let nobody = ObjectUid::from(Uuid::nil());
    let asked = daemon::blocking(move || host.observe(nobody, Logs::OfEnded));
    let why = match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(_)) => return None,
        Ok(Err(error)) => daemon::chain(&error),
        Err(_) => format!("podman did not answer within {} s", PATIENCE.as_secs()),
    };
    Some(format!("{why}; no container starts here before podman answers: try podman pod ps"))
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

//! Keeps the status of this rabbit's NnfNode up to date.

use controller::{
    Retry, describe, ensure_namespace,
    patch::{self, WriteError},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use agent::error::Failure;
use api::{NnfNode, NnfNodeSpec, names::NNF_NODE, nnf_node::NnfNodeState};
use fence::chassis::Chassis;
use kube::{Api, api::PostParams};
use storage::{
    Observed,
    desired::{NamespaceId, Nqn, ObjectUid, Spread},
    health::Facts,
    plan::allocatable,
};

use super::{events, facts::facts, report};
use crate::{
    core::{Context, Key, Pass},
    health::{CheckFacts, DrivesRead, HealthState, Judgement},
};

/// The part of the cache that a pass over the NnfNode reads.
#[derive(Debug)]
pub struct NodeView {
    pub object: Option<Arc<NnfNode>>,
    pub chassis: Chassis,
    pub block_storage_uids: BTreeSet<ObjectUid>,
    /// Namespaces in the statuses of NnfNodeBlockStorages, each with the name of its object. Leaves out objects
    /// that are being deleted.
    pub reported: BTreeMap<NamespaceId, String>,
    /// Uids in the names of volume groups that objects of this rabbit use.
    pub owners: BTreeSet<ObjectUid>,
}

/// Creates the NnfNode if it is missing, and updates its status: first the links, which are quick to read, then the
/// drives. A link that changes while the drives are being read is reported immediately.
pub async fn reconcile(
    context: &Context,
    view: &NodeView,
    health: &HealthState,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let mut object = get_or_create(context, view, pass).await?;
    let (looked, facts) = observe_all(context, view, health, &mut object, pass).await?;
    let seen = looked.as_ref().ok();
    pass.drives = seen.map(usable);
    let known = health.judged();
    let spread = context.policy.spread;
    let lost = seen.map(|seen| report::lost_namespaces(seen, &view.reported)).unwrap_or_default();
    // The pass over each object reports the object's own lost namespaces.
    let objects: BTreeSet<_> = lost.iter().map(|(_, object)| *object).collect();
    pass.wakes.extend(objects.into_iter().map(|name| Key::BlockStorage(name.to_owned())));
    let lost: Vec<_> =
        lost.iter().map(|(id, object)| format!("{id} of NnfNodeBlockStorage {object}")).collect();
    let judged = judge(view, health, seen.map(|seen| (seen, &*lost)), (facts.as_ref(), spread));
    if let Err(failure) = &looked {
        pass.add_failure(&object, failure);
    }
    let before = object.status.clone().unwrap_or_default();
    let mut status = report::status(&before, seen, &view.chassis, &judged, health.slots(), spread);
    report::mark_fenced(&mut status.servers, &context.fences.fenced());
    if let Some(nid) = facts.as_ref().and_then(|facts| facts.nids.first()) {
        status.lnet_nid.clone_from(nid);
    }
    let unknown = facts.as_ref().and_then(|facts| report::unknown_nid(&before, facts));
    pass.failures.extend(unknown.map(|why| format!("{}: {why}", describe(&object))));
    let events = events::events((&before, &known), (&status, &judged), seen);
    pass.report(context, &object, status).await?;
    context.events.queue(&object, events);
    Ok(())
}

/// Returns the rabbit's NnfNode, and creates it if it is missing.
async fn get_or_create(
    context: &Context,
    view: &NodeView,
    pass: &mut Pass,
) -> Result<NnfNode, WriteError> {
    if let Some(object) = &view.object {
        return record_pod(context, object, pass).await;
    }
    let created = create(context).await?;
    pass.add_write(created.clone());
    Ok(created)
}

/// Reads the drives and the node. While the drives are being read, reports links that change.
async fn observe_all(
    context: &Context,
    view: &NodeView,
    health: &HealthState,
    object: &mut NnfNode,
    pass: &mut Pass,
) -> Result<(Result<Observed, Failure>, Option<Facts>), WriteError> {
    let mut called = health.check_requests();
    report_links(context, view, health, object, pass).await?;
    let looking =
        async { tokio::join!(observe_drives(context), facts(context, health, &view.owners)) };
    tokio::pin!(looking);
    let (looked, mut facts) = loop {
        tokio::select! {
            looked = &mut looking => break looked,
            Ok(()) = called.changed() => report_links(context, view, health, object, pass).await?,
        }
    };
    let looked = looked.map(|observed| health.with_missing(observed));
    if let (Some(facts), Ok(seen)) = (&mut facts, &looked) {
        facts.link_drives(&seen.drives);
    }
    Ok((looked, facts))
}

fn usable(seen: &Observed) -> BTreeSet<Nqn> {
    let usable = seen.drives.iter().filter(|drive| drive.fault.is_none());
    usable.map(|drive| drive.nqn.clone()).collect()
}

/// Judges the observations, and publishes the judgement for the coordinator.
fn judge(
    view: &NodeView,
    health: &HealthState,
    seen: Option<(&Observed, &[String])>,
    (facts, spread): (Option<&Facts>, Spread),
) -> Judgement {
    let unclaimed: Vec<String> = seen
        .iter()
        .flat_map(|(seen, _)| report::unclaimed(&seen.namespaces, &view.block_storage_uids))
        .map(|id| id.id.to_string())
        .collect();
    let drives = seen.map_or(DrivesRead::Failed, |(observed, lost)| DrivesRead::Complete {
        observed,
        unclaimed: &unclaimed,
        lost,
    });
    let block_storage_uids = Some(&view.block_storage_uids);
    let computes = &view.chassis.slots();
    let judged = health.judge(
        &CheckFacts { computes, links: None, facts, drives, block_storage_uids },
        Instant::now(),
    );
    let (free, allocated) = seen
        .map_or((0, 0), |(seen, _)| (allocatable(seen, spread), report::allocated(&seen.drives)));
    health.publish(&judged, free.saturating_add(allocated), allocated);
    judged
}

/// Writes the state of the links into the status. Does not write the first status of an NnfNode, because the first
/// status must also have the drives.
async fn report_links(
    context: &Context,
    view: &NodeView,
    health: &HealthState,
    object: &mut NnfNode,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let Some(probe) = health.probe() else { return Ok(()) };
    let links = daemon::blocking(move || probe.links()).await;
    let (facts, drives, block_storage_uids) = (None, DrivesRead::NotRead, None);
    let computes = &view.chassis.slots();
    let seen = CheckFacts { computes, links: Some(&links), facts, drives, block_storage_uids };
    let judged: Judgement = health.judge(&seen, Instant::now());
    health.publish_conditions(&judged);
    let Some(status) = object.status.as_ref().filter(|status| status.status.is_some()) else {
        return Ok(());
    };
    let mut after = object.clone();
    let mut servers = report::servers(&view.chassis, &judged);
    report::mark_fenced(&mut servers, &context.fences.fenced());
    let events = events::computes(&status.servers, &servers);
    after.status = Some(api::NnfNodeStatus { servers, ..status.clone() });
    if let Some(stored) = patch::status(&context.client, object, &after).await? {
        pass.add_write(stored.clone());
        context.events.queue(&stored, events);
        *object = stored;
    }
    Ok(())
}

async fn observe_drives(context: &Context) -> Result<Observed, Failure> {
    context.inventory().await.map_err(|failure| Failure { retry: Retry::Later, ..failure })
}

/// Records the name of the agent's pod, which changes at every restart.
async fn record_pod(
    context: &Context,
    object: &NnfNode,
    pass: &mut Pass,
) -> Result<NnfNode, WriteError> {
    if object.spec.pod == context.pod {
        return Ok(object.clone());
    }
    let mut after = object.clone();
    after.spec.pod.clone_from(&context.pod);
    let written = patch::object(&context.client, object, &after).await?;
    Ok(pass.stored(object, written))
}

async fn create(context: &Context) -> Result<NnfNode, WriteError> {
    let spec = NnfNodeSpec {
        name: context.node.to_string(),
        pod: context.pod.clone(),
        state: NnfNodeState::Enable,
    };
    let mut object = NnfNode::new(NNF_NODE, spec);
    object.metadata.namespace = Some(context.node.to_string());
    let failed = |source| WriteError::Api { object: describe(&object), source: Box::new(source) };
    ensure_namespace(&context.client, context.node.as_str()).await.map_err(failed)?;
    let nodes = Api::<NnfNode>::namespaced(context.client.clone(), context.node.as_str());
    nodes.create(&PostParams::default(), &object).await.map_err(failed)
}

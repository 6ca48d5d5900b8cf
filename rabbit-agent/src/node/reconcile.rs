//! Keeps this rabbit's NnfNode telling what is there.

use controller::{
    Retry, describe,
    patch::{self, WriteError},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use api::{NnfNode, NnfNodeSpec, names::NNF_NODE, nnf_node::NnfNodeState};
use clientmount_agent::error::Failure;
use daemon::chain;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::PostParams};
use storage::{
    Desired, Observed,
    desired::{NamespaceId, Nqn, ObjectUid, Spread},
    health::Facts,
    plan::allocatable,
};

use super::{events, facts::facts, report};
use crate::{
    cache::Key,
    chassis::Chassis,
    fence,
    health::{DrivesSeen, HealthState, Judgement, Seen},
    pass::{Context, Pass},
};

/// What the NnfNode is made from.
#[derive(Debug)]
pub struct View {
    /// Itself, if it exists.
    pub object: Option<Arc<NnfNode>>,
    /// The chassis as configured.
    pub chassis: Chassis,
    /// Every NnfNodeBlockStorage of the rabbit.
    pub claimants: BTreeSet<ObjectUid>,
    /// Namespaces that they were told to have, each with the name of its object, but for what is being deleted.
    pub reported: BTreeMap<NamespaceId, String>,
    /// After whom volume groups are named that objects of this rabbit see to.
    pub owners: BTreeSet<ObjectUid>,
}

/// Makes the NnfNode if it is missing, and brings its status up to date: first what links tell, which takes no time, then the
/// drives. While they are being looked at, links that move are told all the same.
///
/// # Errors
/// When a write did not happen.
pub async fn reconcile(
    context: &Context,
    view: &View,
    health: &HealthState,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let mut object = own(context, view, pass).await?;
    let (looked, facts) = look_around(context, view, health, &mut object, pass).await?;
    let seen = looked.as_ref().ok();
    pass.drives = seen.map(usable);
    let known = health.judged();
    let spread = context.policy.spread;
    let lost = seen.map(|seen| report::lost(seen, &view.reported)).unwrap_or_default();
    // Each tells of its own.
    let objects: BTreeSet<_> = lost.iter().map(|(_, object)| *object).collect();
    pass.wakes.extend(objects.into_iter().map(|name| Key::BlockStorage(name.to_owned())));
    let lost: Vec<_> =
        lost.iter().map(|(id, object)| format!("{id} of NnfNodeBlockStorage {object}")).collect();
    let judged = judge(view, health, seen.map(|seen| (seen, &*lost)), (facts.as_ref(), spread));
    if let Err(failure) = &looked {
        pass.failed(&object, failure);
    }
    let before = object.status.clone().unwrap_or_default();
    let mut status = report::status(&before, seen, &view.chassis, &judged, health.slots(), spread);
    fence::servers::mark_fenced(&mut status.servers, &context.fences.fenced());
    if let Some(nid) = facts.as_ref().and_then(|facts| facts.nids.first()) {
        status.lnet_nid.clone_from(nid);
    }
    let unknown = facts.as_ref().and_then(|facts| report::unknown_nid(&before, facts));
    pass.failures.extend(unknown.map(|why| format!("{}: {why}", describe(&object))));
    let events = events::events((&before, &known), (&status, &judged), seen);
    pass.report(context, &object, status).await?;
    context.events.tell(&object, events);
    Ok(())
}

/// The rabbit's NnfNode, made if there is none.
async fn own(context: &Context, view: &View, pass: &mut Pass) -> Result<NnfNode, WriteError> {
    if let Some(object) = &view.object {
        return introduce(context, object, pass).await;
    }
    let made = create(context).await?;
    pass.wrote(made.clone());
    Ok(made)
}

/// Looks at drives and at the node. They may take long, and links that move meanwhile are told at once.
async fn look_around(
    context: &Context,
    view: &View,
    health: &HealthState,
    object: &mut NnfNode,
    pass: &mut Pass,
) -> Result<(Result<Observed, Failure>, Option<Facts>), WriteError> {
    let mut called = health.check_requests();
    tell_links(context, view, health, object, pass).await?;
    let looking = async { tokio::join!(look(context), facts(context, health, &view.owners)) };
    tokio::pin!(looking);
    let (looked, mut facts) = loop {
        tokio::select! {
            looked = &mut looking => break looked,
            Ok(()) = called.changed() => tell_links(context, view, health, object, pass).await?,
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

/// Judges what was seen, and puts that up for the coordinator.
fn judge(
    view: &View,
    health: &HealthState,
    seen: Option<(&Observed, &[String])>,
    (facts, spread): (Option<&Facts>, Spread),
) -> Judgement {
    let unclaimed: Vec<String> = seen
        .iter()
        .flat_map(|(seen, _)| report::unclaimed(&seen.namespaces, &view.claimants))
        .map(|id| id.id.to_string())
        .collect();
    let drives = seen.map_or(DrivesSeen::Failed, |(observed, lost)| DrivesSeen::Whole {
        observed,
        unclaimed: &unclaimed,
        lost,
    });
    let claimants = Some(&view.claimants);
    let computes = &view.chassis.slots();
    let judged =
        health.judge(&Seen { computes, links: None, facts, drives, claimants }, Instant::now());
    let (free, allocated) = seen
        .map_or((0, 0), |(seen, _)| (allocatable(seen, spread), report::allocated(&seen.drives)));
    health.publish(&judged, free.saturating_add(allocated), allocated);
    judged
}

/// What links tell, in the status at once; in one that tells nothing yet only with everything else.
async fn tell_links(
    context: &Context,
    view: &View,
    health: &HealthState,
    object: &mut NnfNode,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let Some(probe) = health.probe() else { return Ok(()) };
    let links = context.blocking(move || probe.links()).await;
    let (facts, drives, claimants) = (None, DrivesSeen::NotAsked, None);
    let computes = &view.chassis.slots();
    let seen = Seen { computes, links: Some(&links), facts, drives, claimants };
    let judged: Judgement = health.judge(&seen, Instant::now());
    health.publish_conditions(&judged);
    let Some(status) = object.status.as_ref().filter(|status| status.status.is_some()) else {
        return Ok(());
    };
    let mut after = object.clone();
    let mut servers = report::servers(&view.chassis, &judged);
    fence::servers::mark_fenced(&mut servers, &context.fences.fenced());
    let events = events::computes(&status.servers, &servers);
    after.status = Some(api::NnfNodeStatus { servers, ..status.clone() });
    if let Some(stored) = patch::status(&context.client, object, &after).await? {
        pass.wrote(stored.clone());
        context.events.tell(&stored, events);
        *object = stored;
    }
    Ok(())
}

async fn look(context: &Context) -> Result<Observed, Failure> {
    let converged = context.converge(vec![Desired::Inventory]).await.pop();
    let converged = converged.expect("one unit has one answer");
    let failed = |error| Failure { retry: Retry::Later, ..Failure::of_convergence(&error) };
    converged.map(|converged| converged.observed).map_err(failed)
}

/// Which pod speaks for the rabbit changes with every start of one.
async fn introduce(
    context: &Context,
    object: &NnfNode,
    pass: &mut Pass,
) -> Result<NnfNode, WriteError> {
    if object.spec.pod == context.pod {
        return Ok(object.clone());
    }
    let mut after = object.clone();
    after.spec.pod.clone_from(&context.pod);
    let stored = patch::object(&context.client, object, &after).await?;
    let Some(stored) = stored else { return Ok(object.clone()) };
    pass.wrote(stored.clone());
    Ok(stored)
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
    ensure_namespace(context).await.map_err(failed)?;
    let nodes = Api::<NnfNode>::namespaced(context.client.clone(), context.node.as_str());
    nodes.create(&PostParams::default(), &object).await.map_err(failed)
}

async fn ensure_namespace(context: &Context) -> kube::Result<()> {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(context.node.to_string());
    match Api::<Namespace>::all(context.client.clone())
        .create(&PostParams::default(), &namespace)
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => {
            log::debug!(cause = chain(&error); "create namespace {}", context.node);
            Err(error)
        }
    }
}

//! Keeps this rabbit's NnfNode telling what is there.

use std::{collections::BTreeSet, sync::Arc};

use api::{NnfNode, NnfNodeSpec, names::NNF_NODE, nnf_node::NnfNodeState};
use clientmount_agent::error::{Failure, Retry};
use daemon::chain;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::PostParams};
use storage::{Desired, Observed, desired::ObjectUid};

use super::report;
use crate::{
    chassis::Chassis,
    health::{self, Board},
    pass::{Context, Pass},
    write::{self, WriteError},
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
}

/// Makes the NnfNode if it is missing, and brings its status up to date.
///
/// # Errors
/// When a write did not happen.
pub async fn reconcile(
    context: &Context,
    view: &View,
    board: &Board,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let object = match &view.object {
        Some(object) => introduce(context, object, pass).await?,
        None => create(context).await?,
    };
    let seen = look(context, &object, pass).await;
    let unclaimed: Vec<String> = seen
        .iter()
        .flat_map(|seen| report::unclaimed(&seen.namespaces, &view.claimants))
        .map(|it| it.id.to_string())
        .collect();
    if let Some(seen) = &seen {
        let (total, allocated) = report::capacity(&seen.drives);
        board.tell(health::of_drives(total, allocated, &unclaimed, &report::faults(&seen.drives)));
    }
    let before = object.status.clone().unwrap_or_default();
    let status = report::status(&before, seen.as_ref(), &view.chassis, unclaimed.len());
    if seen.is_none() {
        board.tell(health::of_failure("see the log of rabbit-agent"));
    }
    pass.report(context, &object, status).await
}

async fn look(context: &Context, object: &NnfNode, pass: &mut Pass) -> Option<Observed> {
    match context.converge(vec![Desired::Inventory]).await.pop()? {
        Ok(converged) => Some(converged.observed),
        Err(error) => {
            let failure = Failure { retry: Retry::Later, ..Failure::of_convergence(&error) };
            pass.failed(object, &failure);
            None
        }
    }
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
    let stored = write::object(&context.client, object, &after).await?;
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
    let failed =
        |source| WriteError::Api { object: write::describe(&object), source: Box::new(source) };
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

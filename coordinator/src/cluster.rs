//! The gRPC service `Cluster`: operators and workload managers list all nodes of the system with it, rehearse jobs, and ask nodes
//! for plans.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::Client;
use proto::limits::ANSWER;
use proto::v1::cluster_server::Cluster;
use proto::v1::{
    ListNodesRequest, ListNodesResponse, ListReachedRequest, ListReachedResponse, NodePlan,
    PlanRequest, PlanWorkflowRequest, PlanWorkflowResponse, RehearseRequest, RehearseResponse,
    RehearsedFailure, RehearsedStorage,
};
use tonic::{Request, Response, Status};
use workflow::EngineHandle;
use workflow::rehearsal::{self, Rehearsal};

use crate::hub::Hub;
use crate::list_limit::bounded;
use crate::peer::Peer;

mod objects;

#[derive(Clone)]
pub(crate) struct ClusterService {
    hub: Arc<Hub>,
    engine: EngineHandle,
    client: Client,
    /// Names of certificates whose holders may call this service over TCP.
    operators: Arc<[String]>,
}

impl std::fmt::Debug for ClusterService {
    /// Leaves out the client, whose Debug output says nothing useful.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterService").field("operators", &self.operators).finish_non_exhaustive()
    }
}

impl ClusterService {
    pub(crate) fn new(
        hub: Arc<Hub>,
        engine: EngineHandle,
        client: Client,
        operators: &[String],
    ) -> Self {
        Self { hub, engine, client, operators: operators.into() }
    }
}

#[tonic::async_trait]
impl Cluster for ClusterService {
    async fn list_nodes(
        &self,
        request: Request<ListNodesRequest>,
    ) -> Result<Response<ListNodesResponse>, Status> {
        Peer::identify(&request)?.check_operator(&self.operators)?;
        Ok(Response::new(bounded(self.hub.nodes(), ANSWER)))
    }
    async fn rehearse(
        &self,
        request: Request<RehearseRequest>,
    ) -> Result<Response<RehearseResponse>, Status> {
        Peer::identify(&request)?.check_operator(&self.operators)?;
        let RehearseRequest { workflow, computes } = request.into_inner();
        let workflow = serde_json::from_slice(&workflow).map_err(|error| {
            Status::invalid_argument(format!("workflow: {error}: send a Workflow as JSON"))
        })?;
        let rehearsal = self.engine.rehearse(workflow, computes).await.ok_or_else(|| {
            Status::failed_precondition(
                "this coordinator drives no workflows: ask the coordinator that runs the workflow engine",
            )
        })?;
        let objects = by_rabbit(&rehearsal);
        let requests = objects
            .into_iter()
            .map(|(rabbit, objects)| (rabbit, PlanRequest { objects, ..PlanRequest::default() }));
        let nodes = self.ask_all(requests).await;
        Ok(Response::new(RehearseResponse { nodes, ..response(rehearsal) }))
    }

    async fn list_reached(
        &self,
        request: Request<ListReachedRequest>,
    ) -> Result<Response<ListReachedResponse>, Status> {
        Peer::identify(&request)?.check_operator(&self.operators)?;
        let nodes: BTreeSet<String> = request.into_inner().nodes.into_iter().collect();
        let asked = nodes.iter().map(|node| self.hub.plans().ask_reached(node));
        Ok(Response::new(ListReachedResponse { nodes: futures::future::join_all(asked).await }))
    }

    async fn plan_workflow(
        &self,
        request: Request<PlanWorkflowRequest>,
    ) -> Result<Response<PlanWorkflowResponse>, Status> {
        Peer::identify(&request)?.check_operator(&self.operators)?;
        let PlanWorkflowRequest { namespace, workflow, teardown } = request.into_inner();
        let names = objects::of_workflow(&self.client, &namespace, &workflow).await?;
        let requests = names.into_iter().map(|(node, names)| {
            (node, PlanRequest { names, delete: teardown, ..PlanRequest::default() })
        });
        let mut nodes = self.ask_all(requests).await;
        // A rabbit's tear-down waits for the computes.
        nodes.sort_by_key(|plan| self.hub.is_rabbit(&plan.node));
        Ok(Response::new(PlanWorkflowResponse { nodes }))
    }
}

impl ClusterService {
    /// Asks nodes for plans, all at the same time. The plans have the order of the requests.
    async fn ask_all(
        &self,
        requests: impl IntoIterator<Item = (String, PlanRequest)>,
    ) -> Vec<NodePlan> {
        let ask = |(node, request): (String, PlanRequest)| async move {
            self.hub.plans().ask(&node, request).await
        };
        futures::future::join_all(requests.into_iter().map(ask)).await
    }
}

/// Returns the rehearsed objects of each rabbit, as JSON.
fn by_rabbit(rehearsal: &Rehearsal) -> BTreeMap<String, Vec<Vec<u8>>> {
    let rabbits: BTreeSet<_> = rehearsal.storage.iter().map(|storage| &storage.rabbit).collect();
    let mut objects: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for object in &rehearsal.objects {
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        if let (true, Ok(json)) = (rabbits.contains(&namespace), serde_json::to_vec(object)) {
            objects.entry(namespace).or_default().push(json);
        }
    }
    objects
}

fn response(rehearsal: Rehearsal) -> RehearseResponse {
    let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    let storage = |storage: rehearsal::RehearsedStorage| RehearsedStorage {
        directive: number(storage.directive),
        rabbit: storage.rabbit,
        label: storage.label,
        count: storage.count,
        bytes: storage.bytes,
        free: storage.free,
    };
    let failure = |(directive, message): (Option<usize>, String)| RehearsedFailure {
        directive: directive.map(number),
        message,
    };
    RehearseResponse {
        storage: rehearsal.storage.into_iter().map(storage).collect(),
        nodes: Vec::new(),
        objects: rehearsal
            .objects
            .iter()
            .filter_map(|object| serde_json::to_vec(object).ok())
            .collect(),
        failures: rehearsal.failures.into_iter().map(failure).collect(),
    }
}

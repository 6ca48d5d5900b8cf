//! The gRPC service `Cluster`: operators and workload managers list all nodes of the system with it, and rehearse jobs.

use std::sync::Arc;

use proto::limits::ANSWER;
use proto::v1::cluster_server::Cluster;
use proto::v1::{
    ListNodesRequest, ListNodesResponse, RehearseRequest, RehearseResponse, RehearsedFailure,
    RehearsedStorage,
};
use tonic::{Request, Response, Status};
use workflow::EngineHandle;
use workflow::rehearsal::{self, Rehearsal};

use crate::hub::Hub;
use crate::list_limit::bounded;
use crate::peer::Peer;

#[derive(Clone, Debug)]
pub(crate) struct ClusterService {
    hub: Arc<Hub>,
    engine: EngineHandle,
    /// Names of certificates whose holders may call this service over TCP.
    operators: Arc<[String]>,
}

impl ClusterService {
    pub(crate) fn new(hub: Arc<Hub>, engine: EngineHandle, operators: &[String]) -> Self {
        Self { hub, engine, operators: operators.into() }
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
        Ok(Response::new(response(rehearsal)))
    }
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
        objects: rehearsal
            .objects
            .iter()
            .filter_map(|object| serde_json::to_vec(object).ok())
            .collect(),
        failures: rehearsal.failures.into_iter().map(failure).collect(),
    }
}

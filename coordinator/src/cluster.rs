//! The gRPC service `Cluster`: operators and workload managers list all nodes of the system with it.

use std::sync::Arc;

use proto::limits::ANSWER;
use proto::v1::cluster_server::Cluster;
use proto::v1::{ListNodesRequest, ListNodesResponse};
use tonic::{Request, Response, Status};

use crate::hub::Hub;
use crate::list_limit::bounded;
use crate::peer::Peer;

#[derive(Clone, Debug)]
pub(crate) struct ClusterService {
    hub: Arc<Hub>,
    /// Names of certificates whose holders may call this service over TCP.
    operators: Arc<[String]>,
}

impl ClusterService {
    pub(crate) fn new(hub: Arc<Hub>, operators: &[String]) -> Self {
        Self { hub, operators: operators.into() }
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
}

//! Runs the whole agent with real sockets to the API and to the coordinator.

use std::{path::PathBuf, time::Duration};

use agent::coordinator::CertificateArgs;
use apiclient::Address;
use daemon::End;
use futures::{StreamExt, stream::BoxStream};
use proto::v1::{
    FromNode, Role, ToNode, Welcome, from_node,
    health::State,
    node_link_server::{NodeLink, NodeLinkServer},
    to_node,
};
use rabbit_agent::{config::Config, run};
use storage::desired::AllowedRoots;
use storage_linux::{DriveConfig, LinuxConfig, LustreUnmount};
use tokio::{net::UnixListener, sync::mpsc};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status, Streaming, transport::Server};

use crate::bench::{RABBIT, rabbit, strict_crds};

/// Receives the messages of one node up to its health, and then refuses the node because a newer agent is connected.
struct Coordinator(mpsc::UnboundedSender<from_node::Message>);

#[tonic::async_trait]
impl NodeLink for Coordinator {
    type OpenStream = BoxStream<'static, Result<ToNode, Status>>;

    async fn open(
        &self,
        request: Request<Streaming<FromNode>>,
    ) -> Result<Response<Self::OpenStream>, Status> {
        let mut from_node = request.into_inner();
        let received = self.0.clone();
        let (to_node, answers) = mpsc::unbounded_channel();
        to_node
            .send(Ok(ToNode { message: Some(to_node::Message::Welcome(Welcome { epoch: 1 })) }))
            .unwrap();
        tokio::spawn(async move {
            while let Some(Ok(FromNode { message: Some(message) })) = from_node.next().await {
                let is_health = matches!(&message, from_node::Message::Health(health) if health.state() != State::Unspecified);
                received.send(message).unwrap();
                if is_health {
                    to_node
                        .send(Err(Status::aborted("superseded by a newer agent of this node")))
                        .unwrap();
                    return;
                }
            }
        });
        Ok(Response::new(tokio_stream::wrappers::UnboundedReceiverStream::new(answers).boxed()))
    }
}

#[tokio::test]
async fn the_coordinator_receives_health_and_may_end_the_agent() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let mut config = kubeapi::Config::new(at("api"));
    config.crds = strict_crds();
    let served = kubeapi::Api::open(config).unwrap();
    let listener = UnixListener::bind(at("api.sock")).unwrap();
    tokio::spawn(kubeapi::serve::unix(listener, served, Vec::new(), std::future::pending()));

    let (received, mut messages) = mpsc::unbounded_channel();
    let listener = UnixListenerStream::new(UnixListener::bind(at("coordinator.sock")).unwrap());
    tokio::spawn(
        Server::builder()
            .add_service(NodeLinkServer::new(Coordinator(received)))
            .serve_with_incoming(listener),
    );

    let coordinator = format!("unix://{}", at("coordinator.sock").display());
    let config = Config {
        rabbit: rabbit(directory.path()),
        api: Address::Unix(at("api.sock")),
        certificate: None,
        coordinator: Some(CertificateArgs::default().coordinator(&coordinator).unwrap()),
        storage: LinuxConfig {
            drives: DriveConfig::NvmeNamespaces,
            roots: AllowedRoots::new([PathBuf::from("/mnt/nnf")]).unwrap(),
            state: at("state"),
            command_deadline: Duration::from_secs(9),
            mount_deadline: Duration::from_secs(9),
            lustre_unmount: LustreUnmount::default(),
        },
        health: rabbit_agent::health::args::HealthConfig::default(),
        #[cfg(feature = "switchtec")]
        switchtec_record: None,
        dry_run: false,
        listen: Some(at("agent.sock")),
        probes: None,
        metrics: None,
        notes: Vec::new(),
    };
    let end = tokio::time::timeout(Duration::from_secs(30), run(config)).await.unwrap().unwrap();
    assert_eq!(end, End::Refused("superseded by a newer agent of this node".into()));

    let Some(from_node::Message::Hello(hello)) = messages.recv().await else {
        panic!("hello comes first")
    };
    assert_eq!((hello.node.as_str(), hello.role()), (RABBIT, Role::Rabbit));
    while let Some(message) = messages.recv().await {
        if let from_node::Message::Health(health) = message
            && health.state() != State::Unspecified
        {
            assert_eq!(health.state(), State::Critical, "the rabbit has no drives");
            return;
        }
    }
    panic!("no health was received");
}

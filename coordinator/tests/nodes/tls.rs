use std::fs;

use coordinator::config::Tls;
use proto::v1::ListNodesRequest;
use proto::v1::cluster_client::ClusterClient;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tonic::Code;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::agent::{Agent, hello};
use crate::standalone_coordinator::StandaloneCoordinator;

pub(crate) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = parameters.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(parameters, key) }
    }

    fn issue(&self, name: &str) -> (String, String) {
        self.issue_with(name, None)
    }

    fn issue_with(&self, name: &str, common: Option<&str>) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
        if let Some(common) = common {
            parameters.distinguished_name.push(DnType::CommonName, common);
        }
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    pub(crate) fn tls(&self, directory: &TempDir) -> Tls {
        let (certificate, key) = self.issue("localhost");
        let file = |name: &str, content: &str| {
            let path = directory.path().join(name);
            fs::write(&path, content).unwrap();
            path
        };
        Tls {
            listen: "127.0.0.1:0".parse().unwrap(),
            certificate: file("tls.crt", &certificate),
            key: file("tls.key", &key),
            authority: file("ca.crt", &self.pem),
            operators: vec!["operator".to_owned()],
        }
    }

    pub(crate) async fn channel(
        &self,
        port: u16,
        name: Option<&str>,
    ) -> Result<Channel, tonic::transport::Error> {
        self.channel_with(port, name.map(|name| self.issue(name))).await
    }

    async fn channel_with(
        &self,
        port: u16,
        identity: Option<(String, String)>,
    ) -> Result<Channel, tonic::transport::Error> {
        let mut tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.pem))
            .domain_name("localhost");
        if let Some((certificate, key)) = identity {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        Endpoint::from_shared(format!("https://127.0.0.1:{port}"))
            .unwrap()
            .tls_config(tls)
            .unwrap()
            .connect()
            .await
    }
}

#[tokio::test]
async fn a_certificate_is_valid_for_its_node_only() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let coordinator =
        StandaloneCoordinator::start_with(&directory, Some(authority.tls(&directory))).await;
    let port = coordinator.node_address.unwrap().port();

    let node = authority.channel(port, Some("compute-1")).await.unwrap();
    let other = Agent::over(node.clone(), hello("compute-2", 1)).await.err().unwrap();
    assert_eq!(other.code(), Code::PermissionDenied);
    let mut agent = Agent::over(node.clone(), hello("compute-1", 1)).await.unwrap();
    coordinator.create_profile().await;
    agent.synced().await;

    let listed = ClusterClient::new(node).list_nodes(ListNodesRequest {}).await.unwrap_err();
    assert_eq!(listed.code(), Code::PermissionDenied);
    let operator = authority.channel(port, Some("operator")).await.unwrap();
    let nodes =
        ClusterClient::new(operator).list_nodes(ListNodesRequest {}).await.unwrap().into_inner();
    assert!(nodes.nodes.iter().any(|record| record.node == "compute-1" && record.connected));

    drop(agent);
    coordinator.stop().await;
}

/// An authority that checks subject alternative names may copy the common name unchecked.
#[tokio::test]
async fn a_common_name_is_ignored_beside_a_subject_alternative_name() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let coordinator =
        StandaloneCoordinator::start_with(&directory, Some(authority.tls(&directory))).await;
    let port = coordinator.node_address.unwrap().port();
    for common in ["compute-1", "operator"] {
        let identity = authority.issue_with("compute-2", Some(common));
        let channel = authority.channel_with(port, Some(identity)).await.unwrap();
        let other = Agent::over(channel.clone(), hello("compute-1", 1)).await.err().unwrap();
        assert_eq!(other.code(), Code::PermissionDenied);
        let listed = ClusterClient::new(channel.clone()).list_nodes(ListNodesRequest {}).await;
        assert_eq!(listed.unwrap_err().code(), Code::PermissionDenied);
        drop(Agent::over(channel, hello("compute-2", 1)).await.unwrap());
    }
    coordinator.stop().await;
}

#[tokio::test]
async fn without_a_certificate_of_the_authority_no_request_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let coordinator =
        StandaloneCoordinator::start_with(&directory, Some(authority.tls(&directory))).await;
    let port = coordinator.node_address.unwrap().port();
    // With TLS 1.3 a client may learn of its rejection only when it reads.
    if let Ok(channel) = authority.channel(port, None).await {
        assert!(ClusterClient::new(channel).list_nodes(ListNodesRequest {}).await.is_err());
    }
    let mut other = Authority::new();
    other.pem.clone_from(&authority.pem);
    if let Ok(channel) = other.channel(port, Some("operator")).await {
        assert!(ClusterClient::new(channel).list_nodes(ListNodesRequest {}).await.is_err());
    }
    coordinator.stop().await;
}

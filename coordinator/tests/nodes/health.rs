use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use apiclient::Address;
use coordinator::Coordinator;
use coordinator::config::{Backend, Config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::agent::{channel, with_agent};

async fn health(socket: &Path, service: &str) -> ServingStatus {
    let request = HealthCheckRequest { service: service.to_owned() };
    let mut client = HealthClient::new(channel(socket).await);
    client.check(request).await.unwrap().into_inner().status()
}

async fn page(address: SocketAddr, path: &str) -> String {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: coordinator\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn without_an_api_node_link_is_not_serving_and_readyz_answers_503() {
    let directory = tempfile::tempdir().unwrap();
    let (coordinator, _agent) = with_agent(&directory).await;
    assert_eq!(health(coordinator.socket(), "warren.v1.NodeLink").await, ServingStatus::Serving);

    let elsewhere = tempfile::tempdir().unwrap();
    let kubeconfig = elsewhere.path().join("kubeconfig");
    let reachable = fs::read_to_string(directory.path().join("kubeconfig")).unwrap();
    let unreachable = reachable.lines().map(|line| match line.split_once("server:") {
        Some((before, _)) => format!("{before}server: https://127.0.0.1:1\n"),
        None => format!("{line}\n"),
    });
    fs::write(&kubeconfig, unreachable.collect::<String>()).unwrap();
    let socket = elsewhere.path().join("coordinator.sock");
    let backend = Backend::Cluster(Address::Kubeconfig(Some(kubeconfig)));
    let http = Some("127.0.0.1:0".parse().unwrap());
    let config = Config {
        backend,
        socket: socket.clone(),
        workloads: None,
        managers: Vec::new(),
        tls: None,
        http,
        webhook: None,
        workflows: None,
    };
    let without_api = Coordinator::start(&config).await.unwrap();
    let pages = without_api.http_address.unwrap();
    tokio::spawn(without_api.run_until(std::future::pending()));
    assert_eq!(health(&socket, "warren.v1.NodeLink").await, ServingStatus::NotServing);
    assert_eq!(health(&socket, "warren.v1.Cluster").await, ServingStatus::Serving);
    assert!(page(pages, "/healthz").await.starts_with("HTTP/1.1 200"));
    assert!(page(pages, "/readyz").await.starts_with("HTTP/1.1 503"));
    let metrics = page(pages, "/metrics").await;
    assert!(metrics.contains("warren_nodes{role=\"compute\",state=\"ok\"} 0"), "{metrics}");
    coordinator.stop().await;
}

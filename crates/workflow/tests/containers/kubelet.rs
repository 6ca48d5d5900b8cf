//! A simulated kubelet that serves only logs: kube-apiserver reads a container's log from the kubelet
//! of the pod's node.

use std::sync::Arc;

use control_plane::Authority;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

/// Starts a kubelet on loopback that returns the same log for every container, and returns its port.
pub(crate) async fn with_log(log: &'static str) -> u16 {
    let own = Authority::new("kubelet").unwrap().server().unwrap();
    let chain = vec![CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            tokio::spawn(answer(acceptor.clone(), tcp, log));
        }
    });
    port
}

/// Answers one request with the log, and ends the connection.
async fn answer(acceptor: TlsAcceptor, tcp: TcpStream, log: &str) -> std::io::Result<()> {
    let mut stream = acceptor.accept(tcp).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let is_log = head.starts_with(b"GET /containerLogs/default/");
    let status = if is_log { "200 OK" } else { "404 Not Found" };
    let length = log.len();
    let reply =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{log}");
    stream.write_all(reply.as_bytes()).await?;
    stream.shutdown().await
}

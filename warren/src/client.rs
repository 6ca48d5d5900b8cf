//! Clients: of the Kubernetes API, over a unix socket or as a kubeconfig says, and of gRPC services. This file alone
//! connects.

use std::path::{Path, PathBuf};

use clap::Args;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::net::UnixStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Uri};
use tower::service_fn;

use crate::exit::Exit;
use crate::failure::Failure;

/// Where the Kubernetes API is.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ServerArgs {
    /// API to talk to: unix:///PATH of a coordinator, or https://HOST:PORT of the kubeconfig's credentials
    #[arg(long, value_name = "URL", env = "WARREN_API", global = true)]
    server: Option<String>,
    /// Talk to the cluster this kubeconfig names [default: the coordinator on this host]
    #[arg(long, value_name = "FILE", env = "WARREN_KUBECONFIG", global = true)]
    kubeconfig: Option<PathBuf>,
}

/// Where the coordinator is.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct CoordinatorArgs {
    /// Coordinator to ask about nodes: unix:///PATH or https://HOST:PORT
    #[arg(
        long,
        value_name = "URL",
        env = "WARREN_COORDINATOR",
        global = true,
        default_value = "unix:///run/warren/coordinator.sock"
    )]
    coordinator: String,
    /// Authority of an https coordinator's certificate, PEM
    #[arg(long, value_name = "FILE", env = "WARREN_CA", global = true)]
    ca: Option<PathBuf>,
    /// Our certificate for an https coordinator, PEM
    #[arg(long, value_name = "FILE", env = "WARREN_CERTIFICATE", global = true, requires = "key")]
    certificate: Option<PathBuf>,
    /// Key of our certificate, PEM
    #[arg(long, value_name = "FILE", env = "WARREN_KEY", global = true, requires = "certificate")]
    key: Option<PathBuf>,
}

const API_SOCKET: &str = "/run/warren/api.sock";

impl ServerArgs {
    /// A client of the API.
    ///
    /// # Errors
    /// When the address cannot be meant, or nobody answers on the socket.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        match (self.server.as_deref(), &self.kubeconfig) {
            (None, None) => over_unix(Path::new(API_SOCKET)).await,
            (Some(server), _) if server.starts_with("unix://") => {
                over_unix(Path::new(server.trim_start_matches("unix://"))).await
            }
            (server, kubeconfig) => over_tls(server, kubeconfig.as_deref()).await,
        }
    }
}

impl CoordinatorArgs {
    /// A channel to the coordinator.
    ///
    /// # Errors
    /// When nobody answers there.
    pub(crate) async fn channel(&self) -> Result<Channel, Failure> {
        if let Some(path) = self.coordinator.strip_prefix("unix://") {
            return channel_over_unix(Path::new(path), "start it with `systemctl start warren-coordinator`, or name another with --coordinator").await;
        }
        let wrong = |why: &str| {
            Failure::new(Exit::Usage, format!("--coordinator {}: {why}", self.coordinator))
        };
        if !self.coordinator.starts_with("https://") {
            return Err(wrong("give unix:///PATH or https://HOST:PORT"));
        }
        let mut tls = ClientTlsConfig::new();
        if let Some(authority) = &self.ca {
            tls = tls.ca_certificate(Certificate::from_pem(read(authority)?));
        }
        if let (Some(certificate), Some(key)) = (&self.certificate, &self.key) {
            tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        let endpoint = Endpoint::from_shared(self.coordinator.clone())
            .map_err(|error| wrong("not a URL").because(&error))?
            .tls_config(tls)
            .map_err(|error| wrong("certificates cannot be used").because(&error))?;
        endpoint.connect().await.map_err(|error| {
            Failure::new(Exit::Unreachable, format!("connect {}", self.coordinator))
                .because(&error)
                .remedy("is the coordinator up, and are --ca, --certificate and --key right?")
        })
    }
}

/// A gRPC channel over a unix socket.
///
/// # Errors
/// When nobody answers there; `remedy` says what to do then.
pub(crate) async fn channel_over_unix(path: &Path, remedy: &str) -> Result<Channel, Failure> {
    probe(path, remedy).await?;
    let path = path.to_owned();
    // The address is not used: the connector knows its socket.
    let endpoint = Endpoint::from_static("http://warren");
    let connector = service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    endpoint
        .connect_with_connector(connector)
        .await
        .map_err(|error| Failure::new(Exit::Unreachable, "open a gRPC channel").because(&error))
}

async fn over_unix(path: &Path) -> Result<Client, Failure> {
    probe(
        path,
        "start it with `systemctl start warren-coordinator`, or name another with --server",
    )
    .await?;
    Ok(Client::new(unix_service(path.to_owned()), "default"))
}

/// HTTP over a unix socket, one connection per request in flight.
fn unix_service(
    path: PathBuf,
) -> impl tower::Service<
    http::Request<Body>,
    Response = http::Response<hyper::body::Incoming>,
    Error = hyper_util::client::legacy::Error,
    Future: Send,
> + Send
+ 'static {
    let connector = UnixConnector { path };
    let client: HttpClient<UnixConnector, Body> =
        HttpClient::builder(TokioExecutor::new()).build(connector);
    service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move { client.request(absolute(request)).await }
    })
}

/// A pooling client wants an authority in every address.
fn absolute(mut request: http::Request<Body>) -> http::Request<Body> {
    let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    if let Ok(uri) = format!("http://localhost{path}").parse() {
        *request.uri_mut() = uri;
    }
    request
}

async fn over_tls(server: Option<&str>, kubeconfig: Option<&Path>) -> Result<Client, Failure> {
    let failed = |what: String| Failure::new(Exit::Usage, what);
    let kubeconfig = match kubeconfig {
        Some(path) => Kubeconfig::read_from(path).map_err(|error| {
            failed(format!("read kubeconfig {}", path.display())).because(&error)
        })?,
        None => Kubeconfig::read().map_err(|error| {
            failed("find credentials for --server".to_owned())
                .because(&error)
                .remedy("name a file with --kubeconfig")
        })?,
    };
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| failed("use the kubeconfig".to_owned()).because(&error))?;
    if let Some(server) = server {
        config.cluster_url = server.parse().map_err(|error: http::uri::InvalidUri| {
            failed(format!("--server {server}: give unix:///PATH or https://HOST:PORT"))
                .because(&error)
        })?;
    }
    Client::try_from(config)
        .map_err(|error| failed("use the kubeconfig".to_owned()).because(&error))
}

/// Finds out early and in plain words whether anybody listens.
async fn probe(path: &Path, remedy: &str) -> Result<(), Failure> {
    match UnixStream::connect(path).await {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::new(Exit::Unreachable, format!("connect {}", path.display()))
            .because(&error)
            .remedy(remedy)),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| {
        Failure::new(Exit::Usage, format!("read {}", path.display())).because(&error)
    })
}

mod unix_connector;
use unix_connector::UnixConnector;

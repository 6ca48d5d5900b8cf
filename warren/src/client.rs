//! Clients of the Kubernetes API and of gRPC services. All connections are made here.

mod own;

use std::collections::HashSet;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use apiclient::{Address, AddressError, ConnectError, connect, connect_to_server};
use clap::Args;
use http::HeaderValue;
use http::header::WARNING;
use kube::Client;
use proto::pem::{self, PemError};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tower::service_fn;

use crate::failure::Failure;
use cli::{Exit, Output, channel_over_unix, probe};

/// Address of the Kubernetes API.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ServerArgs {
    /// API: unix:///PATH, kubeconfig[:/PATH], in-cluster, https://HOST:PORT [default: this host's]
    ///
    /// By default the coordinator on this host. The socket is that of a coordinator; workloads:///PATH is its socket for users,
    /// which shows one's own objects only; https uses the kubeconfig's credentials.
    #[arg(long, value_name = "ADDRESS", env = "WARREN_API", global = true)]
    server: Option<String>,
    /// Use the cluster that this kubeconfig names
    #[arg(
        long,
        value_name = "FILE",
        env = "WARREN_KUBECONFIG",
        global = true,
        hide_short_help = true
    )]
    kubeconfig: Option<PathBuf>,
}

/// Address of the coordinator.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct CoordinatorArgs {
    /// Coordinator: unix:///PATH or https://HOST:PORT
    ///
    /// The verbs nodes, cabling and workload call it.
    #[arg(
        long,
        value_name = "URL",
        env = "WARREN_COORDINATOR",
        global = true,
        default_value = COORDINATOR
    )]
    coordinator: String,
    /// Certificate of the authority that signed an https coordinator's certificate, PEM
    #[arg(long, value_name = "FILE", env = "WARREN_CA", global = true, hide_short_help = true)]
    ca: Option<PathBuf>,
    /// Client certificate for an https coordinator, PEM
    #[arg(
        long,
        value_name = "FILE",
        env = "WARREN_CERTIFICATE",
        global = true,
        requires = "key",
        hide_short_help = true
    )]
    certificate: Option<PathBuf>,
    /// Private key of the client certificate, PEM
    #[arg(
        long,
        value_name = "FILE",
        env = "WARREN_KEY",
        global = true,
        requires = "certificate",
        hide_short_help = true
    )]
    key: Option<PathBuf>,
}

const API_SOCKET: &str = "/run/warren/api.sock";
const COORDINATOR: &str = "unix:///run/warren/coordinator.sock";
/// Socket of the service `Workloads`, for every user of the coordinator's host.
const WORKLOADS_SOCKET: &str = "/run/warren/workloads.sock";
/// Scheme of an address of the service `Workloads` in the place of an API.
const WORKLOADS: &str = "workloads://";

/// Returns whether this user has to use the socket for users: only root and the coordinator's user may use the others.
fn is_only_user(socket: &str) -> bool {
    let is_usable = |path: &str| UnixStream::connect(path).is_ok();
    !nix::unistd::geteuid().is_root() && !is_usable(socket) && is_usable(WORKLOADS_SOCKET)
}

impl ServerArgs {
    /// Connects to the API. The client prints the API's warnings.
    ///
    /// # Errors
    /// If the address cannot be used, or no server listens on the socket.
    pub(crate) async fn client(&self, output: Output) -> Result<Client, Failure> {
        Ok(with_warnings(self.connect().await?, output))
    }

    async fn connect(&self) -> Result<Client, Failure> {
        if let Some(path) = self.workloads() {
            let remedy = "name the coordinator's --workloads-socket, or another API with --server";
            return Ok(own::client(channel_over_unix(&path, remedy).await?));
        }
        let unusable = |error: ConnectError| {
            Failure::new(Exit::Usage, "reach the API")
                .because(&error)
                .remedy("name another API with --server or --kubeconfig")
        };
        if let Some(server) = self.server.as_deref().filter(|server| server.starts_with("https://"))
        {
            let server = server.parse().map_err(|error: http::uri::InvalidUri| {
                Failure::new(Exit::Usage, format!("--server {server}: not https://HOST:PORT"))
                    .because(&error)
            })?;
            let client = connect_to_server(server, self.kubeconfig.as_deref()).await;
            return client.map_err(unusable);
        }
        let address = self.address()?;
        if let Address::Unix(path) = &address {
            let remedy = "start the coordinator with `systemctl start warren-coordinator`, or name another API with --server";
            probe(path, remedy).await?;
        }
        connect(&address).await.map_err(unusable)
    }

    /// Returns the socket of the service `Workloads` if it stands for the API: by name, or because this user may not use
    /// the API on this host.
    fn workloads(&self) -> Option<PathBuf> {
        match (self.server.as_deref(), &self.kubeconfig) {
            (Some(server), None) => server.strip_prefix(WORKLOADS).map(PathBuf::from),
            (None, None) => is_only_user(API_SOCKET).then(|| WORKLOADS_SOCKET.into()),
            _ => None,
        }
    }

    /// Returns the address of an API that is not reached by https.
    fn address(&self) -> Result<Address, Failure> {
        match (self.server.as_deref(), &self.kubeconfig) {
            (None, None) => Ok(Address::Unix(API_SOCKET.into())),
            (None, Some(path)) => Ok(Address::Kubeconfig(Some(path.clone()))),
            (Some(server), None) => server.parse().map_err(|error: AddressError| {
                Failure::new(Exit::Usage, format!("--server: {error}, or https://HOST:PORT"))
            }),
            (Some(server), Some(path)) => {
                let what =
                    format!("--server {server} and --kubeconfig {} name two APIs", path.display());
                Err(Failure::new(Exit::Usage, what).remedy(
                    "leave one of them out; the variables WARREN_API and WARREN_KUBECONFIG count as these options",
                ))
            }
        }
    }
}

/// Wraps a client so that it prints each warning of the API once.
fn with_warnings(client: Client, output: Output) -> Client {
    let printed = Arc::new(Mutex::new(HashSet::new()));
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request| {
        let (client, printed) = (client.clone(), printed.clone());
        async move {
            let response = client.send(request).await?;
            for text in response.headers().get_all(WARNING).iter().filter_map(warning_text) {
                let is_new = printed.lock().is_ok_and(|mut printed| printed.insert(text.clone()));
                if is_new {
                    output.note(&format!("warning: {text}"));
                }
            }
            Ok::<_, kube::Error>(response)
        }
    });
    Client::new(service, namespace)
}

/// Returns the text of the header `Warning: 299 - "text"` (RFC 7234, 5.5).
fn warning_text(value: &HeaderValue) -> Option<String> {
    let value = String::from_utf8_lossy(value.as_bytes());
    let (_, quoted) = value.split_once('"')?;
    let mut text = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => text.push(characters.next()?),
            character => text.push(character),
        }
    }
}

impl CoordinatorArgs {
    /// Connects to the coordinator.
    ///
    /// # Errors
    /// If the address cannot be used, or no coordinator answers.
    pub(crate) async fn channel(&self) -> Result<Channel, Failure> {
        if let Some(path) = self.coordinator.strip_prefix("unix://") {
            let is_default = self.coordinator == COORDINATOR;
            let path = if is_default && is_only_user(path) { WORKLOADS_SOCKET } else { path };
            return channel_over_unix(Path::new(path), "start the coordinator with `systemctl start warren-coordinator`, or name another coordinator with --coordinator").await;
        }
        let wrong = |why: &str| {
            Failure::new(Exit::Usage, format!("--coordinator {}: {why}", self.coordinator))
        };
        if !self.coordinator.starts_with("https://") {
            return Err(wrong("give unix:///PATH or https://HOST:PORT"));
        }
        let mut tls = ClientTlsConfig::new();
        if let Some(authority) = &self.ca {
            tls = tls.ca_certificate(pem::authority(authority).map_err(unusable_certificates)?);
        }
        if let (Some(certificate), Some(key)) = (&self.certificate, &self.key) {
            tls = tls.identity(pem::identity(certificate, key).map_err(unusable_certificates)?);
        }
        let endpoint = Endpoint::from_shared(self.coordinator.clone())
            .map_err(|error| wrong("not a URL").because(&error))?
            .tls_config(tls)
            .map_err(|error| wrong("certificates cannot be used").because(&error))?;
        endpoint.connect().await.map_err(|error| {
            Failure::new(Exit::Unreachable, format!("connect {}", self.coordinator))
                .because(&error)
                .remedy("check that the coordinator runs, and that --ca, --certificate and --key are right")
        })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
fn unusable_certificates(error: PemError) -> Failure {
    Failure::new(Exit::Usage, "use the files of --ca, --certificate and --key").because(&error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(server: Option<&str>, kubeconfig: Option<&str>) -> Result<String, String> {
        let server = server.map(str::to_owned);
        let args = ServerArgs { server, kubeconfig: kubeconfig.map(PathBuf::from) };
        args.address().map(|address| address.to_string()).map_err(|failure| failure.text())
    }

    #[test]
    fn only_one_api_may_be_named() {
        for (server, kubeconfig, expected) in [
            (None, None, "unix:///run/warren/api.sock"),
            (Some("unix:///s"), None, "unix:///s"),
            (Some("in-cluster"), None, "in-cluster"),
            (None, Some("config"), "kubeconfig:config"),
        ] {
            assert_eq!(address(server, kubeconfig).as_deref(), Ok(expected));
        }
        let two = address(Some("unix:///s"), Some("config")).unwrap_err();
        assert!(two.contains("name two APIs") && two.contains("WARREN_KUBECONFIG"), "{two}");
    }

    #[test]
    fn the_quoted_part_of_a_header_is_the_warning() {
        let text = |value: &[u8]| warning_text(&HeaderValue::from_bytes(value).unwrap());
        assert_eq!(
            text(br#"299 - "unknown field \"spec.a\"""#).as_deref(),
            Some(r#"unknown field "spec.a""#)
        );
        assert_eq!(text("299 - \"für\" \"a date\"".as_bytes()).as_deref(), Some("für"));
        assert_eq!(text(b"299 - none"), None);
        assert_eq!(text(b"299 - \"half"), None);
    }

    #[test]
    fn an_api_address_with_http_is_refused_and_the_remedy_names_https() {
        let error = address(Some("http://localhost:8080"), None).unwrap_err();
        assert!(error.contains("http://localhost:8080") && error.contains("https://"), "{error}");
    }
}

//! Clients of the Kubernetes API and of gRPC services. No other file connects.

use std::collections::HashSet;
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
use nodeclient::{Exit, Output, channel_over_unix, probe};

/// Where the Kubernetes API is.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ServerArgs {
    /// API to talk to: unix:///PATH of a coordinator, kubeconfig, kubeconfig:/PATH, in-cluster, or https://HOST:PORT with the
    /// kubeconfig's credentials [default: the coordinator on this host]
    #[arg(long, value_name = "ADDRESS", env = "WARREN_API", global = true)]
    server: Option<String>,
    /// Talk to the cluster this kubeconfig names
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
    /// A client of the API, which prints the API's warnings.
    ///
    /// # Errors
    /// When the address cannot be used, or nothing listens on the socket.
    pub(crate) async fn client(&self, output: Output) -> Result<Client, Failure> {
        Ok(warning(self.connect().await?, output))
    }

    async fn connect(&self) -> Result<Client, Failure> {
        let unusable = |error: ConnectError| {
            Failure::new(Exit::Usage, "reach the API")
                .because(&error)
                .remedy("name another with --server or --kubeconfig")
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
            let remedy =
                "start it with `systemctl start warren-coordinator`, or name another with --server";
            probe(path, remedy).await?;
        }
        connect(&address).await.map_err(unusable)
    }

    /// Any address but https.
    fn address(&self) -> Result<Address, Failure> {
        match (self.server.as_deref(), &self.kubeconfig) {
            (None, None) => Ok(Address::Unix(API_SOCKET.into())),
            (None, Some(path)) => Ok(Address::Kubeconfig(Some(path.clone()))),
            (Some(server), None) => server.parse().map_err(|error: AddressError| {
                Failure::new(Exit::Usage, format!("--server: {error}, or https://HOST:PORT"))
            }),
            (Some(server), Some(path)) => {
                let what =
                    format!("--server {server} and --kubeconfig {} are two APIs", path.display());
                Err(Failure::new(Exit::Usage, what).remedy(
                    "leave one out; WARREN_API and WARREN_KUBECONFIG say the same as the options",
                ))
            }
        }
    }
}

/// The client, which prints each warning of the API once.
fn warning(client: Client, output: Output) -> Client {
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

/// The text of `299 - "text"` (RFC 7234, 5.5).
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
            tls = tls.ca_certificate(pem::authority(authority).map_err(unread)?);
        }
        if let (Some(certificate), Some(key)) = (&self.certificate, &self.key) {
            tls = tls.identity(pem::identity(certificate, key).map_err(unread)?);
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

#[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
fn unread(error: PemError) -> Failure {
    Failure::new(Exit::Usage, "use the certificates").because(&error)
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
    fn one_api_is_meant() {
        for (server, kubeconfig, meant) in [
            (None, None, "unix:///run/warren/api.sock"),
            (Some("unix:///s"), None, "unix:///s"),
            (Some("in-cluster"), None, "in-cluster"),
            (None, Some("config"), "kubeconfig:config"),
        ] {
            assert_eq!(address(server, kubeconfig).as_deref(), Ok(meant));
        }
        let two = address(Some("unix:///s"), Some("config")).unwrap_err();
        assert!(two.contains("two APIs") && two.contains("WARREN_KUBECONFIG"), "{two}");
    }

    #[test]
    fn a_warning_is_what_stands_in_quotes() {
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
    fn a_token_is_not_sent_in_the_clear() {
        let error = address(Some("http://localhost:8080"), None).unwrap_err();
        assert!(error.contains("http://localhost:8080") && error.contains("https://"), "{error}");
    }
}

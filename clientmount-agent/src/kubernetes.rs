//! The flags and environment of the Go daemon `clientmountd`, which say how to reach the API.

mod upstream;

use std::time::Duration;

use apiclient::Address;
use clap::Args;
use daemon::GoFlag;
use nodeclient::seconds_or_units;

pub use upstream::{ApiUpstream, Choice, FlagSources, UpstreamError, api_upstream};

/// How this node reaches the Kubernetes API itself, without a coordinator.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Kubernetes (the flags of clientmountd)")]
pub struct KubernetesArgs {
    /// The Kubernetes API, watched directly instead of through a coordinator: https://HOST:PORT, kubeconfig,
    /// kubeconfig:/PATH, in-cluster or unix:///PATH
    #[arg(long, env = "WARREN_API", value_name = "ADDRESS")]
    pub api: Option<Address>,
    /// Host of the Kubernetes API; give --kubernetes-service-port too, or neither of the two to use a kubeconfig
    #[arg(long, env = "KUBERNETES_SERVICE_HOST", value_name = "HOST")]
    pub kubernetes_service_host: Option<String>,
    /// Port of the Kubernetes API
    #[arg(long, env = "KUBERNETES_SERVICE_PORT", value_name = "PORT")]
    pub kubernetes_service_port: Option<String>,
    /// This node's name, if --node does not say it
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    pub node_name: Option<String>,
    /// File with the bearer token for the API; it is read for every request, so it may be replaced at any time
    #[arg(long, env = "DWS_CLIENT_MOUNT_SERVICE_TOKEN_FILE", value_name = "FILE")]
    pub service_token_file: Option<String>,
    /// File with the certificates of the authorities that may sign the API's certificate, PEM; it is
    /// read for every connection
    #[arg(long, env = "DWS_CLIENT_MOUNT_SERVICE_CERT_FILE", value_name = "FILE")]
    pub service_cert_file: Option<String>,
    /// The same as --command-deadline: seconds, or a time like 1m30s; 0 leaves --command-deadline as it is
    #[arg(long, value_name = "TIME", value_parser = timeout, conflicts_with = "command_deadline")]
    pub command_timeout: Option<Duration>,
    /// Refused: clientmountd mounted in spite of this flag, and this agent has no mode that mounts nothing; --mock=false is accepted
    #[arg(long, value_name = "BOOL")]
    pub mock: Option<bool>,
}

impl KubernetesArgs {
    /// The flags, for [`daemon::translate`].
    pub const FLAGS: [GoFlag; 7] = [
        GoFlag::Value("kubernetes-service-host"),
        GoFlag::Value("kubernetes-service-port"),
        GoFlag::Value("node-name"),
        GoFlag::Value("service-token-file"),
        GoFlag::Value("service-cert-file"),
        GoFlag::Value("command-timeout"),
        GoFlag::Switch("mock"),
    ];
}

fn timeout(text: &str) -> Result<Duration, &'static str> {
    const LONGEST: Duration = Duration::from_secs(86_400);
    seconds_or_units(text, LONGEST).ok_or("use seconds, or a time like 1m30s, up to 24 hours")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_have_units() {
        for (text, seconds) in
            [("90", Some(90)), ("1m30s", Some(90)), ("0", Some(0)), ("x", None), ("25h", None)]
        {
            assert_eq!(timeout(text).ok(), seconds.map(Duration::from_secs), "{text}");
        }
    }
}

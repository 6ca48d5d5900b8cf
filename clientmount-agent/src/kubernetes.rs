//! The flags and environment of the Go daemon `clientmountd`, and which way to the API they mean.

mod go_flags;
mod way;

use std::time::Duration;

use apiclient::Address;
use clap::Args;
use log::LevelFilter;

pub use go_flags::spelled_as_here;
pub use way::{ApiWay, Choice, Given, WayError, choose};

/// How this node reaches the Kubernetes API itself, without a coordinator.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Kubernetes, as clientmountd took them")]
pub struct KubernetesArgs {
    /// The Kubernetes API, watched directly instead of through a coordinator: https://HOST:PORT, kubeconfig,
    /// kubeconfig:/PATH, in-cluster or unix:///PATH
    #[arg(long, env = "WARREN_API", value_name = "ADDRESS")]
    pub api: Option<Address>,
    /// Host of the Kubernetes API, with its port; without both, a kubeconfig is looked for
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
    /// File with the certificates that may sign the API's, PEM; it is read for every connection
    #[arg(long, env = "DWS_CLIENT_MOUNT_SERVICE_CERT_FILE", value_name = "FILE")]
    pub service_cert_file: Option<String>,
    /// The same as --command-deadline: seconds, or a time like 1m30s; 0 leaves that as it is
    #[arg(long, value_name = "TIME", value_parser = go_flags::timeout, conflicts_with = "command_deadline")]
    pub command_timeout: Option<Duration>,
    /// Refused: it never kept clientmountd from mounting, and nothing here does either; --mock=false is accepted
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_flags::boolean)]
    pub mock: Option<bool>,
    /// The same as --log-level: debug, info, error, panic or a number
    #[arg(long, value_name = "LEVEL", value_parser = go_flags::level)]
    pub zap_log_level: Option<LevelFilter>,
    /// Accepted and of no effect
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_flags::boolean)]
    pub zap_devel: Option<bool>,
    /// Accepted and of no effect
    #[arg(long, value_name = "ENCODER")]
    pub zap_encoder: Option<String>,
    /// Accepted and of no effect
    #[arg(long, value_name = "LEVEL")]
    pub zap_stacktrace_level: Option<String>,
    /// Accepted and of no effect
    #[arg(long, value_name = "ENCODING")]
    pub zap_time_encoding: Option<String>,
}

impl KubernetesArgs {
    /// What an administrator should know of flags that change nothing, if any were given.
    #[must_use]
    pub fn without_effect(&self) -> Option<String> {
        let given: Vec<_> = [
            ("--zap-devel", self.zap_devel.is_some()),
            ("--zap-encoder", self.zap_encoder.is_some()),
            ("--zap-stacktrace-level", self.zap_stacktrace_level.is_some()),
            ("--zap-time-encoding", self.zap_time_encoding.is_some()),
        ]
        .into_iter()
        .filter_map(|(flag, given)| given.then_some(flag))
        .collect();
        (!given.is_empty()).then(|| {
            format!(
                "{} had a meaning for clientmountd's log and have none here: journald stamps and formats",
                given.join(", ")
            )
        })
    }
}

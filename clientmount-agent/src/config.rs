//! The command line and environment, turned once into a configuration that is known to be good.

use std::path::PathBuf;

use clap::Parser;
use daemon::LogArgs;
use storage::{
    desired::{AllowedRoots, MountPointError},
    linux::{DriveConfig, LinuxConfig},
};
use thiserror::Error;
use tonic::transport::Endpoint;

use crate::{
    coordinator::{CertificateArgs, CoordinatorError},
    node::{DeadlineArgs, NodeArgs, NodeNameError},
    site::{Side, Site},
};

/// Mounts on this compute node what the coordinator's ClientMounts ask for, and unmounts it again.
///
/// Stopping the agent leaves everything mounted. Exit codes: 0 stopped by a signal, 1 failed, 2 bad usage, 3 the
/// coordinator wants another agent for this node.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Args {
    #[command(flatten)]
    pub node: NodeArgs,
    /// Directory in which it is recorded which of the site's hooks ran
    #[arg(
        long,
        env = "WARREN_STATE_DIR",
        value_name = "DIR",
        default_value = "/var/lib/warren/clientmount-agent",
        help_heading = "Node"
    )]
    pub state_dir: PathBuf,
    /// Socket on which this node's scripts are answered
    #[arg(
        long,
        env = "WARREN_LISTEN",
        value_name = "SOCKET",
        default_value = "/run/warren/clientmount-agent.sock",
        help_heading = "Node"
    )]
    pub listen: PathBuf,

    /// The coordinator: unix:///PATH, or https://HOST:PORT with --ca, --certificate and --key
    #[arg(
        long,
        env = "WARREN_COORDINATOR",
        value_name = "URL",
        default_value = "unix:///run/warren/coordinator.sock",
        help_heading = "Coordinator"
    )]
    pub coordinator: String,
    #[command(flatten)]
    pub certificates: CertificateArgs,

    /// Use drives made of files in this directory, shared by all nodes of one box, instead of NVMe drives
    #[arg(long, env = "WARREN_FILE_POOL", value_name = "DIR", help_heading = "Storage")]
    pub file_pool: Option<PathBuf>,
    #[command(flatten)]
    pub deadlines: DeadlineArgs,

    #[command(flatten)]
    pub logs: LogArgs,
}

/// A configuration that cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// Not a node.
    #[error(transparent)]
    Node(#[from] NodeNameError),
    /// Not directories to mount beneath.
    #[error("--mount-root")]
    MountRoot(#[source] MountPointError),
    /// Not a way to a coordinator.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorError),
}

/// A configuration that can.
#[derive(Debug, Clone)]
pub struct Config {
    /// The node.
    pub site: Site,
    /// Where the coordinator is, with what it takes to be let in.
    pub coordinator: Endpoint,
    /// The node's own socket.
    pub listen: PathBuf,
    /// The node's storage.
    pub storage: LinuxConfig,
}

impl Args {
    /// Checks everything that can be checked without changing the node.
    ///
    /// # Errors
    /// At the first value that cannot be used, naming it and the remedy.
    pub fn check(self) -> Result<Config, ConfigError> {
        let coordinator = self.certificates.endpoint(&self.coordinator)?;
        let node = self.node.name()?;
        let roots = AllowedRoots::new(self.node.mount_roots).map_err(ConfigError::MountRoot)?;
        let drives = match self.file_pool {
            Some(pool) => {
                DriveConfig::File { pool, node: node.clone(), drives: 0, drive_capacity: 0 }
            }
            None => DriveConfig::None,
        };
        Ok(Config {
            coordinator,
            listen: self.listen,
            storage: LinuxConfig {
                drives,
                roots: roots.clone(),
                state: self.state_dir,
                command_deadline: self.deadlines.command(),
                mount_deadline: self.deadlines.mount(),
            },
            site: Site { node, side: Side::Compute, roots, index_root: None },
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use daemon::chain;

    use super::*;

    fn check(args: &[&str]) -> Result<Config, String> {
        let args = Args::try_parse_from([&["clientmount-agent"], args].concat())
            .map_err(|error| error.to_string())?;
        args.check().map_err(|error| chain(&error))
    }

    #[test]
    fn command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn defaults_are_good() {
        let config = check(&["--node", "compute-01"]).unwrap();
        assert_eq!(config.site.roots.to_string(), "/mnt/nnf");
        assert!(matches!(config.storage.drives, DriveConfig::None));
    }

    #[test]
    fn several_roots() {
        let config =
            check(&["--node", "c", "--mount-root", "/mnt/nnf", "--mount-root", "/l"]).unwrap();
        assert_eq!(config.site.roots.to_string(), "/mnt/nnf or /l");
    }

    #[test]
    fn bad_values_are_named_with_their_remedy() {
        for (args, told) in [
            (&["--node", "a b"][..], "--node: \"a b\" is not a host name"),
            (&["--node", "c", "--mount-root", "mnt"], "--mount-root: \"mnt\" is not absolute"),
            (&["--node", "c", "--mount-root", "/"], "--mount-root"),
            (
                &["--node", "c", "--coordinator", "http://x:1"],
                "neither unix:///PATH nor https://HOST:PORT",
            ),
            (&["--node", "c", "--coordinator", "unix://x"], "not an absolute socket path"),
            (
                &["--node", "c", "--coordinator", "https://x:1"],
                "needs --ca, --certificate and --key",
            ),
            (&["--node", "c", "--command-deadline", "0"], "0 is not in 1..=86400"),
            (&["--node", "c", "--certificate", "/x"], "--key"),
        ] {
            let error = check(args).unwrap_err();
            assert!(error.contains(told), "{args:?}: {error}");
        }
    }
}

//! The command line and environment, turned once into a configuration that is known to be good.

use std::{path::PathBuf, time::Duration};

use clap::Parser;
use log::LevelFilter;
use storage::{
    desired::{AllowedRoots, MountPointError, NameError, NodeName},
    linux::{DriveConfig, LinuxConfig},
};
use thiserror::Error;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::site::{Side, Site};

/// Mounts on this compute node what the coordinator's ClientMounts ask for, and unmounts it again.
///
/// Stopping the agent leaves everything mounted. Exit codes: 0 stopped by a signal, 1 failed, 2 bad usage, 3 the
/// coordinator wants another agent for this node.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Args {
    /// This node's name, which is the namespace of its ClientMounts [default: the host name up to its first dot]
    #[arg(long, env = "WARREN_NODE", value_name = "NAME", help_heading = "Node")]
    pub node: Option<String>,
    /// Directory beneath which mounts may be made; repeat for several
    #[arg(
        long = "mount-root",
        env = "WARREN_MOUNT_ROOT",
        value_name = "DIR",
        value_delimiter = ':',
        default_value = "/mnt/nnf",
        help_heading = "Node"
    )]
    pub mount_roots: Vec<PathBuf>,
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
    /// Certificates of the authorities that may sign the coordinator's certificate, PEM
    #[arg(long, env = "WARREN_CA", value_name = "FILE", help_heading = "Coordinator")]
    pub ca: Option<PathBuf>,
    /// This node's certificate, PEM; it must be issued to the node's name
    #[arg(
        long,
        env = "WARREN_CERTIFICATE",
        value_name = "FILE",
        requires = "key",
        help_heading = "Coordinator"
    )]
    pub certificate: Option<PathBuf>,
    /// The certificate's private key, PEM
    #[arg(
        long,
        env = "WARREN_KEY",
        value_name = "FILE",
        requires = "certificate",
        help_heading = "Coordinator"
    )]
    pub key: Option<PathBuf>,

    /// Use drives made of files in this directory, shared by all nodes of one box, instead of NVMe drives
    #[arg(long, env = "WARREN_FILE_POOL", value_name = "DIR", help_heading = "Storage")]
    pub file_pool: Option<PathBuf>,
    /// Seconds after which a site's command is killed with all its children
    #[arg(long, env = "WARREN_COMMAND_DEADLINE", value_name = "SECONDS", default_value_t = 90, value_parser = clap::value_parser!(u64).range(1..=86_400), help_heading = "Storage")]
    pub command_deadline: u64,
    /// Seconds after which a mount or umount that hangs in the kernel is reported and left alone
    #[arg(long, env = "WARREN_MOUNT_DEADLINE", value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400), help_heading = "Storage")]
    pub mount_deadline: u64,

    /// What is logged: off, error, warn, info, debug or trace
    #[arg(
        long,
        env = "WARREN_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info",
        help_heading = "Logs"
    )]
    pub log_level: LevelFilter,
}

/// A configuration that cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// Not a host name.
    #[error("--node: {0}")]
    Node(NameError),
    /// Not directories to mount beneath.
    #[error("--mount-root: {0}")]
    MountRoot(MountPointError),
    /// Not an address of a coordinator.
    #[error("--coordinator: {value:?} {problem}")]
    Coordinator {
        /// The value.
        value: String,
        /// What is wrong with it, and the remedy.
        problem: &'static str,
    },
    /// A certificate or key cannot be read.
    #[error("{flag}: read {}", path.display())]
    ReadPem {
        /// Which flag.
        flag: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Certificates and key do not make a TLS configuration.
    #[error("--ca, --certificate, --key: not usable for TLS")]
    Tls(#[source] tonic::transport::Error),
    /// The host has no name that could be the node's.
    #[error("the host's name cannot be read: name the node with --node")]
    HostName(#[source] nix::Error),
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
        let coordinator = self.endpoint()?;
        let node: NodeName = match self.node {
            Some(name) => name,
            None => host_name()?,
        }
        .parse()
        .map_err(ConfigError::Node)?;
        let roots = AllowedRoots::new(self.mount_roots).map_err(ConfigError::MountRoot)?;
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
                command_deadline: Duration::from_secs(self.command_deadline),
                mount_deadline: Duration::from_secs(self.mount_deadline),
            },
            site: Site { node, side: Side::Compute, roots, index_root: None },
        })
    }

    fn endpoint(&self) -> Result<Endpoint, ConfigError> {
        let url = &self.coordinator;
        let wrong = |problem| ConfigError::Coordinator { value: url.clone(), problem };
        if let Some(path) = url.strip_prefix("unix://") {
            if !path.starts_with('/') {
                return Err(wrong(
                    "is not an absolute socket path: use unix:///run/warren/coordinator.sock",
                ));
            }
            return Endpoint::from_shared(url.clone()).map_err(|_| wrong("is not a URL"));
        }
        if !url.starts_with("https://") {
            return Err(wrong(
                "is neither unix:///PATH nor https://HOST:PORT: without TLS a node could not prove its name",
            ));
        }
        let (Some(ca), Some(certificate), Some(key)) = (&self.ca, &self.certificate, &self.key)
        else {
            return Err(wrong("needs --ca, --certificate and --key"));
        };
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(pem("--ca", ca)?))
            .identity(Identity::from_pem(pem("--certificate", certificate)?, pem("--key", key)?));
        let endpoint = Endpoint::from_shared(url.clone())
            .map_err(|_| wrong("is not a URL: use https://HOST:PORT"))?;
        endpoint.tls_config(tls).map_err(ConfigError::Tls)
    }
}

fn pem(flag: &'static str, path: &PathBuf) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|source| ConfigError::ReadPem { flag, path: path.clone(), source })
}

fn host_name() -> Result<String, ConfigError> {
    let name = nix::unistd::gethostname().map_err(ConfigError::HostName)?;
    let name = name.to_string_lossy();
    Ok(name.split('.').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn check(args: &[&str]) -> Result<Config, String> {
        let args = Args::try_parse_from([&["clientmount-agent"], args].concat())
            .map_err(|error| error.to_string())?;
        args.check().map_err(|error| error.to_string())
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

    #[test]
    fn an_unreadable_certificate_is_named() {
        let args = [
            "--node",
            "c",
            "--coordinator",
            "https://x:1",
            "--ca",
            "/nowhere",
            "--certificate",
            "/b",
            "--key",
            "/c",
        ];
        assert_eq!(check(&args).unwrap_err(), "--ca: read /nowhere");
    }
}

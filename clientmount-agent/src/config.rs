//! Converts the command line and the environment into a checked configuration.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use agent::{
    coordinator::{AddressError, CertificateArgs, CoordinatorAddress},
    node::{DeadlineArgs, NodeArgs, NodeNameError},
    site::{Side, Site},
    volumes::Volumes,
};
use apiclient::{Address, Credentials};
use clap::{CommandFactory, FromArgMatches, Parser};
use cli::{help_on_a_screen, short_help};
use daemon::{LogArgs, ZapArgs, translate};
use storage::desired::{AllowedRoots, MountPointError};
use storage_linux::{DriveConfig, LinuxConfig};
use thiserror::Error;

use crate::kubernetes::{Choice, FlagSources, KubernetesArgs, UpstreamError, api_upstream};

/// The flags that `--help` shows.
const COMMON: [&str; 8] =
    ["node", "mount_roots", "coordinator", "ca", "certificate", "key", "api", "log_level"];

/// Mounts and unmounts the storage that this compute node's ClientMounts request.
///
/// The agent gets its ClientMounts from a coordinator. It watches the Kubernetes API itself if --api names one, or the
/// flags or the environment of clientmountd do, or if it is started under the name clientmountd. It has the
/// subcommands of clientmountd: install, remove, start, stop, status and version. Stopping the agent leaves everything
/// mounted.
/// Exit codes: 0 stopped by a signal, 1 failed, 2 bad usage, 3 a newer agent of this node is connected.
#[derive(Debug, Parser)]
#[command(version, mut_args(|flag| short_help(flag, &COMMON)), defer(help_on_a_screen))]
pub struct Args {
    #[command(flatten)]
    pub node: NodeArgs,
    /// Directory in which the agent records what is mounted, and which of the site's hooks ran
    #[arg(
        long,
        env = "WARREN_STATE_DIR",
        value_name = "DIR",
        default_value = "/var/lib/warren/clientmount-agent",
        help_heading = "Node"
    )]
    pub state_dir: PathBuf,
    /// Socket on which the agent answers this node's scripts
    #[arg(
        long,
        env = "WARREN_LISTEN",
        value_name = "SOCKET",
        default_value = "/run/warren/clientmount-agent.sock",
        help_heading = "Node"
    )]
    pub listen: PathBuf,
    /// Seconds after which an idle agent ends; the next connection to its socket starts it again. 0: it never ends
    #[arg(
        long,
        env = "WARREN_IDLE_EXIT",
        value_name = "SECONDS",
        default_value_t = 0,
        value_parser = clap::value_parser!(u64).range(0..=86_400),
        help_heading = "Node"
    )]
    pub idle_exit: u64,
    /// Print what the agent would do first for each ClientMount, change no mount or object, and end; needs --api
    #[arg(long, help_heading = "Node")]
    pub dry_run: bool,
    /// How an unmount treats mounts in use at its deadline, if the script does not say
    #[arg(
        long,
        env = "WARREN_ON_TIMEOUT",
        value_enum,
        value_name = "WHAT",
        default_value = "report",
        help_heading = "Node"
    )]
    pub on_timeout: nodeclient::OnTimeout,

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

    #[command(flatten)]
    pub kubernetes: KubernetesArgs,
    #[arg(skip)]
    flag_sources: FlagSources,

    /// Use drives made of files in this directory, shared by all nodes on one machine, instead of NVMe drives
    #[arg(long, env = "WARREN_FILE_POOL", value_name = "DIR", help_heading = "Storage")]
    pub file_pool: Option<PathBuf>,
    /// Layer between namespaces and file systems, the same as on the rabbit [default: lvm; plain with --file-pool]
    #[arg(long, env = "WARREN_VOLUMES", value_name = "LAYER", help_heading = "Storage")]
    pub volumes: Option<Volumes>,
    #[command(flatten)]
    pub deadlines: DeadlineArgs,

    #[command(flatten)]
    pub logs: LogArgs,
    #[command(flatten)]
    pub zap: ZapArgs,

    /// Command of a script or an operator to the running agent; without one, the agent itself runs
    #[command(subcommand)]
    pub verb: Option<nodeclient::Verb>,
}

#[derive(Debug, Error)]
pub enum ConfigError {
    #[error(transparent)]
    Node(#[from] NodeNameError),
    #[error("--mount-root")]
    MountRoot(#[source] MountPointError),
    #[error(transparent)]
    Coordinator(#[from] AddressError),
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error("--node {node:?} and --node-name {node_name:?} name two nodes: give one of them")]
    TwoNames { node: String, node_name: String },
    #[error(
        "--dry-run: with a coordinator it would take the connection of the running agent: name the API with --api, or ask the running agent with `warren plan`"
    )]
    DryRun,
    #[error(
        "--mock: this agent mounts for real, as clientmountd did with that flag: leave the flag out; `warren plan` and --dry-run show the steps without executing them"
    )]
    Mock,
}

/// Where the agent gets its ClientMounts from.
#[derive(Debug, Clone)]
pub enum Upstream {
    /// A coordinator: its address, and this node's certificate files.
    Coordinator(Box<CoordinatorAddress>),
    /// The Kubernetes API itself.
    Api {
        address: Address,
        /// Token and CA files, for an address `https://HOST:PORT`; other addresses name their own credentials.
        credentials: Option<Credentials>,
    },
}

#[derive(Debug, Clone)]
pub struct Config {
    /// The node's name, mount roots and volumes.
    pub site: Site,
    pub upstream: Upstream,
    /// Texts for the log about flags that have no effect.
    pub notes: Vec<String>,
    /// Whether the agent only prints what it would do.
    pub dry_run: bool,
    /// Path of the socket for this node's scripts.
    pub listen: PathBuf,
    /// How long an agent with nothing to do waits before it ends; `None`: it never ends.
    pub idle_exit: Option<Duration>,
    /// How an unmount treats mounts in use at its deadline, if the script does not say.
    pub on_timeout: proto::v1::OnTimeout,
    pub storage: LinuxConfig,
}

impl Args {
    /// Reads the environment and a command line. The first word of the command line is the name under which
    /// the program was started.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let known = [&KubernetesArgs::FLAGS[..], &ZapArgs::FLAGS[..]].concat();
        let arguments = translate(arguments, &known);
        let as_clientmountd = called_clientmountd(arguments.first());
        let mut command = Self::command().args_override_self(true);
        if as_clientmountd {
            command = command.name(CLIENTMOUNTD);
        }
        let matches = command.try_get_matches_from(arguments)?;
        let mut args = Self::from_arg_matches(&matches)?;
        args.flag_sources = FlagSources::read(&matches, as_clientmountd);
        Ok(args)
    }

    /// Returns the log level, from Warren's flag or from a flag of zap (the Go daemon's logger).
    pub fn logs(&self) -> LogArgs {
        let log_level = self.zap.level().unwrap_or(self.logs.log_level);
        LogArgs { log_level }
    }

    /// Checks everything that can be checked without changing the node.
    pub fn check(mut self) -> Result<Config, ConfigError> {
        if self.kubernetes.mock == Some(true) {
            return Err(ConfigError::Mock);
        }
        let (upstream, note) = self.upstream()?;
        if self.dry_run && matches!(upstream, Upstream::Coordinator(_)) {
            return Err(ConfigError::DryRun);
        }
        let notes = note.into_iter().chain(without_effect(&self.zap)).collect();
        self.take_node_name()?;
        let command_deadline = match self.kubernetes.command_timeout {
            Some(timeout) if !timeout.is_zero() => timeout,
            Some(_) | None => self.deadlines.command(),
        };
        let node = self.node.name()?;
        let roots = AllowedRoots::new(self.node.mount_roots).map_err(ConfigError::MountRoot)?;
        let volumes = Volumes::or_by_drives(self.volumes, self.file_pool.is_some());
        let drives = match self.file_pool {
            Some(pool) => {
                DriveConfig::File { pool, node: node.clone(), drives: 0, drive_capacity: 0 }
            }
            None => DriveConfig::NvmeNamespaces,
        };
        Ok(Config {
            upstream,
            notes,
            dry_run: self.dry_run,
            listen: self.listen,
            idle_exit: (self.idle_exit > 0).then(|| Duration::from_secs(self.idle_exit)),
            on_timeout: self.on_timeout.into(),
            storage: LinuxConfig {
                drives,
                roots: roots.clone(),
                state: self.state_dir,
                command_deadline,
                mount_deadline: self.deadlines.mount(),
                lustre_unmount: self.deadlines.lustre_unmount(),
            },
            site: Site { node, side: Side::Compute, roots, index_root: None, volumes },
        })
    }

    fn upstream(&self) -> Result<(Upstream, Option<String>), ConfigError> {
        if self.flag_sources.choice()? == Choice::Coordinator {
            let address = self.certificates.coordinator(&self.coordinator)?;
            return Ok((Upstream::Coordinator(Box::new(address)), None));
        }
        let api = api_upstream(&self.kubernetes)?;
        Ok((Upstream::Api { address: api.address, credentials: api.credentials }, api.note))
    }

    /// Uses --node-name if --node is not given.
    fn take_node_name(&mut self) -> Result<(), ConfigError> {
        let node_name = self.kubernetes.node_name.take().filter(|name| !name.is_empty());
        match (&self.node.node, node_name) {
            (Some(node), Some(node_name)) if *node != node_name => {
                Err(ConfigError::TwoNames { node: node.clone(), node_name })
            }
            (None, Some(node_name)) => {
                self.node.node = Some(node_name);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn without_effect(zap: &ZapArgs) -> Option<String> {
    let flags = zap.without_effect();
    (!flags.is_empty()).then(|| {
        format!("{} configured another daemon's log and have no effect here", flags.join(", "))
    })
}

const CLIENTMOUNTD: &str = "clientmountd";

/// Returns whether the program was started under the name of the Go daemon.
pub(crate) fn called_clientmountd(program: Option<&OsString>) -> bool {
    program
        .and_then(|program| Path::new(program).file_name())
        .is_some_and(|name| name == CLIENTMOUNTD)
}

#[cfg(test)]
mod tests;

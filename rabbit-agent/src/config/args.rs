//! Command line options and their environment variables.

use std::path::PathBuf;

use agent::{
    coordinator::CertificateArgs,
    node::{DeadlineArgs, NodeArgs},
    volumes::Volumes,
};
use apiclient::Address;
use bytesize::ByteSize;
use clap::{Arg, CommandFactory, FromArgMatches, Parser};
use cli::{help_on_a_screen, short_help};
use daemon::{LogArgs, ZapArgs};
use fence::FenceArgs;

use crate::{
    config::node_manager::{NodeManagerArgs, flags, with_node_manager_environment},
    health::args::HealthArgs,
    kinds::{
        container::args::ContainerArgs, lustre_mgt::args::MgsArgs, movement::args::MovementArgs,
    },
};

/// Options that the first screen of `--help` shows.
const COMMON: [&str; 9] = [
    "node",
    "api",
    "coordinator",
    "ca",
    "certificate",
    "key",
    "drive_models",
    "file_pool",
    "log_level",
];

/// Creates namespaces on this rabbit's drives, makes file systems on them and mounts them, as the objects in the
/// rabbit's Kubernetes namespace ask.
///
/// A stop of the agent removes no mount, volume or container. Exit codes: 0 stopped by a signal, 1 failed, 2 bad usage,
/// 3 a newer agent of this rabbit is connected.
#[derive(Debug, Parser)]
#[command(version, mut_arg("mount_roots", use_rabbit_defaults), mut_args(|flag| short_help(flag, &COMMON)), defer(help_on_a_screen))]
pub struct Args {
    #[command(flatten)]
    pub node: NodeArgs,
    /// Directory beneath which set-up hooks see a file system
    #[arg(
        long,
        env = "WARREN_TEMP_ROOT",
        value_name = "DIR",
        default_value = "/mnt/temp",
        help_heading = "Node"
    )]
    pub temp_root: PathBuf,
    /// Directory in which the agent shows every index tree again as node-<k> bind mounts, with a link per compute once
    /// the compute of each allocation is known
    #[arg(long, env = "WARREN_INDEX_ROOT", value_name = "DIR", help_heading = "Node")]
    pub index_root: Option<PathBuf>,
    /// Print what the agent would do first for each object, change no drive, mount or object, and end
    #[arg(long, help_heading = "Node")]
    pub dry_run: bool,
    /// Socket on which the agent answers warren plan [default: /run/warren/rabbit-agent.sock, if the agent can make it]
    #[arg(long, env = "WARREN_LISTEN", value_name = "SOCKET", help_heading = "Node")]
    pub listen: Option<PathBuf>,
    /// Directory of the agent's records: owners of the drives' namespaces, mounts, finished hooks. Keep it
    /// over reboots: without it the agent takes back only namespaces that the objects' statuses name in full,
    /// and hooks run again
    #[arg(
        long,
        env = "WARREN_STATE_DIR",
        value_name = "DIR",
        default_value = "/var/lib/warren/rabbit-agent",
        help_heading = "Node"
    )]
    pub state_dir: PathBuf,

    /// The Kubernetes API: unix:///PATH, https://HOST:PORT with --ca, --certificate and --key, kubeconfig,
    /// kubeconfig:/PATH, or in-cluster, which is the default in a pod
    #[arg(
        long,
        env = "WARREN_API",
        value_name = "ADDRESS",
        default_value = "unix:///run/warren/api.sock",
        help_heading = "API"
    )]
    pub api: Address,
    /// Name of the agent's pod on Kubernetes; shown in the NnfNode
    #[arg(
        long,
        env = "NNF_POD_NAME",
        value_name = "NAME",
        default_value = "",
        help_heading = "API"
    )]
    pub pod: String,

    /// The coordinator that receives this rabbit's health: unix:///PATH, or https://HOST:PORT with
    /// --ca, --certificate and --key
    #[arg(long, env = "WARREN_COORDINATOR", value_name = "URL", help_heading = "Coordinator")]
    pub coordinator: Option<String>,
    #[command(flatten)]
    pub certificates: CertificateArgs,

    /// Use only NVMe drives whose model number contains this text; repeat for several.
    ///
    /// Without it the agent uses every drive that supports namespace management and that this node
    /// does not use otherwise
    #[arg(
        long = "drive-model",
        env = "WARREN_DRIVE_MODELS",
        value_name = "TEXT",
        value_delimiter = ',',
        conflicts_with = "file_pool",
        help_heading = "Storage"
    )]
    pub drive_models: Vec<String>,
    /// Append all messages to and from the PCIe switches to this file. It has serial numbers, but no data of the drives.
    /// Support of Switchtec switches is experimental: it was never tried on one
    #[cfg(feature = "switchtec")]
    #[arg(
        long,
        env = "WARREN_SWITCHTEC_RECORD",
        value_name = "FILE",
        conflicts_with = "file_pool",
        help_heading = "Storage"
    )]
    pub switchtec_record: Option<PathBuf>,
    /// Number of drives over which an allocation is spread, if the rabbit has so many: those with the most free bytes,
    /// with the same share on each [default: 16 NVMe drives, 1 with --file-pool or --volumes plain]
    #[arg(long, env = "WARREN_ALLOCATION_DRIVES", value_name = "N", value_parser = clap::value_parser!(u8).range(1..), help_heading = "Storage")]
    pub allocation_drives: Option<u8>,
    /// Fewest drives on which an allocation is made [default: 14 NVMe drives, 1 with --file-pool or --volumes plain,
    /// never more than --allocation-drives]
    #[arg(long, env = "WARREN_ALLOCATION_MINIMUM", value_name = "N", value_parser = clap::value_parser!(u8).range(1..), help_heading = "Storage")]
    pub allocation_minimum: Option<u8>,
    /// Replace a namespace by one on another drive once its drive's slot holds a different drive; a RAID is then
    /// repaired with the new namespace. The agent waits for a drive that is only absent or faulty
    #[arg(long, env = "WARREN_REPLACE_DRIVES", value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set, help_heading = "Storage")]
    pub replace_drives: bool,
    /// Use drives made of files in this directory instead of NVMe drives
    #[arg(long, env = "WARREN_FILE_POOL", value_name = "DIR", help_heading = "Storage")]
    pub file_pool: Option<PathBuf>,
    /// Number of file drives in a new pool
    #[arg(long, env = "WARREN_FILE_DRIVES", value_name = "N", default_value_t = 18, value_parser = clap::value_parser!(u16).range(1..=1024), requires = "file_pool", help_heading = "Storage")]
    pub file_drives: u16,
    /// Size of each file drive, e.g. 4GiB; its file takes up only the space that is written
    #[arg(
        long,
        env = "WARREN_FILE_DRIVE_CAPACITY",
        value_name = "SIZE",
        default_value = "4GiB",
        requires = "file_pool",
        help_heading = "Storage"
    )]
    pub file_drive_capacity: ByteSize,
    /// Layer between namespaces and file systems, the same as on the computes [default: lvm; plain with --file-pool]
    #[arg(long, env = "WARREN_VOLUMES", value_name = "LAYER", help_heading = "Storage")]
    pub volumes: Option<Volumes>,
    #[command(flatten)]
    pub deadlines: DeadlineArgs,
    #[command(flatten)]
    pub health: HealthArgs,

    #[command(flatten)]
    pub fence: FenceArgs,

    #[command(flatten)]
    pub mgs: MgsArgs,

    #[command(flatten)]
    pub containers: ContainerArgs,

    #[command(flatten)]
    pub movements: MovementArgs,

    #[command(flatten)]
    pub node_manager: NodeManagerArgs,

    #[command(flatten)]
    logs: LogArgs,
    #[command(flatten)]
    pub(super) zap: ZapArgs,
}

impl Args {
    /// Parses the options and variables of this agent and of nnf-node-manager. Exits the process on an error.
    pub fn read() -> Self {
        let command = with_node_manager_environment(Self::command(), is_set);
        let mut line = daemon::translate(std::env::args_os(), &flags());
        // The Go daemons have the subcommand `version`.
        if line.len() == 2 && line[1] == "version" {
            line[1] = "--version".into();
        }
        Self::from_arg_matches(&command.get_matches_from(line)).unwrap_or_else(|error| error.exit())
    }

    /// Returns the log level.
    pub fn logs(&self) -> LogArgs {
        LogArgs { log_level: self.zap.level().unwrap_or(self.logs.log_level) }
    }
}

/// Directory in which central controllers mount a new Lustre file system on a rabbit by default, to set its owner.
const LUSTRE_SETUP_ROOT: &str = "/mnt/tmp";

/// Sets the defaults of a rabbit, which has mounts that computes do not have.
fn use_rabbit_defaults(mount_roots: Arg) -> Arg {
    mount_roots.default_values(["/mnt/nnf", LUSTRE_SETUP_ROOT]).help(
        "Directory beneath which ClientMounts may mount; repeat for several. Lustre targets are mounted beneath the first",
    )
}

pub(super) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Args::command().debug_assert();
    }
}

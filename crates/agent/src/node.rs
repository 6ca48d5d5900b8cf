//! Flags that computes and rabbits have in common: the node's name, mount roots and deadlines.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use storage::desired::{NameError, NodeName};
use storage_linux::LustreUnmount;
use thiserror::Error;

/// The node's name, and the directories beneath which objects may mount.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Node")]
pub struct NodeArgs {
    /// This node's name, which is the namespace of its objects [default: the host name up to its first dot]
    #[arg(long, env = "WARREN_NODE", value_name = "NAME")]
    pub node: Option<String>,
    /// Directory beneath which ClientMounts may mount; repeat for several
    #[arg(
        long = "mount-root",
        env = "WARREN_MOUNT_ROOT",
        value_name = "DIR",
        value_delimiter = ':',
        default_value = "/mnt/nnf"
    )]
    pub mount_roots: Vec<PathBuf>,
}

#[derive(Debug, Error)]
pub enum NodeNameError {
    #[error("--node")]
    Unusable(#[source] NameError),
    #[error("the host's name cannot be read: name the node with --node")]
    HostName(#[source] nix::Error),
}

impl NodeArgs {
    pub fn name(&self) -> Result<NodeName, NodeNameError> {
        let name = self.node.clone().map_or_else(host_name, Ok)?;
        name.parse().map_err(NodeNameError::Unusable)
    }
}

fn host_name() -> Result<String, NodeNameError> {
    let name = nix::unistd::gethostname().map_err(NodeNameError::HostName)?;
    Ok(name.to_string_lossy().split('.').next().unwrap_or_default().to_owned())
}

/// How long commands and mounts may take.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Storage")]
pub struct DeadlineArgs {
    /// Seconds after which a site's command is killed with all its children
    #[arg(long, env = "WARREN_COMMAND_DEADLINE", value_name = "SECONDS", default_value_t = 90, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    command_deadline: u64,
    /// Seconds after which a mount or umount that hangs in the kernel is reported and left alone
    #[arg(long, env = "WARREN_MOUNT_DEADLINE", value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    mount_deadline: u64,
    /// Seconds after which a umount of a Lustre that hangs in the kernel is reported and left alone
    #[arg(long, env = "WARREN_LUSTRE_UNMOUNT_DEADLINE", value_name = "SECONDS", default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    lustre_unmount_deadline: u64,
    /// Unmount a Lustre by force (umount -f) after its deadline: data that its servers have not received is lost
    #[arg(long, env = "WARREN_LUSTRE_UNMOUNT_FORCE")]
    lustre_unmount_force: bool,
}

impl DeadlineArgs {
    pub fn command(&self) -> Duration {
        Duration::from_secs(self.command_deadline)
    }

    pub fn mount(&self) -> Duration {
        Duration::from_secs(self.mount_deadline)
    }

    pub fn lustre_unmount(&self) -> LustreUnmount {
        LustreUnmount {
            deadline: Duration::from_secs(self.lustre_unmount_deadline),
            force: self.lustre_unmount_force,
        }
    }
}

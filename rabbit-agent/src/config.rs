//! Turns the command line and environment into a checked configuration.

mod args;
mod check;

pub use args::Args;

use std::path::PathBuf;

use agent::{
    coordinator::{AddressError, CoordinatorAddress},
    node::NodeNameError,
    site::Site,
};
use apiclient::Address;
use storage::{
    desired::{MountPointError, SpreadError},
    linux::LinuxConfig,
};
use thiserror::Error;

use crate::{
    bind::BindAddress,
    block_storage::desired::AllocationPolicy,
    fence::{FenceConfig, FenceConfigError},
    health::args::HealthConfig,
    lustre_mgt::args::{Mgs, MgsArgsError},
    node_manager::NodeManagerError,
    node_storage::desired::TemporaryRoot,
};

/// Why a configuration is invalid.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The node's name is invalid.
    #[error(transparent)]
    Node(#[from] NodeNameError),
    /// A directory to mount beneath is invalid.
    #[error("{flag}")]
    Root {
        /// The flag with that directory.
        flag: &'static str,
        /// What is wrong with it.
        #[source]
        source: MountPointError,
    },
    /// One directory is within another: mounts beneath both could not be told apart.
    #[error("{first} {} and {second} {} overlap: use directories of which none is within another", .first_path.display(), .second_path.display())]
    Overlap {
        /// The first flag.
        first: &'static str,
        /// Directory of the first flag.
        first_path: PathBuf,
        /// The second flag.
        second: &'static str,
        /// Directory of the second flag.
        second_path: PathBuf,
    },
    /// An empty part of a model number is contained in every model.
    #[error("--drive-model is empty: give a part of a model number, or leave it out to use all")]
    EmptyModel,
    /// The number of drives for an allocation is invalid.
    #[error("--allocation-drives, --allocation-minimum")]
    Spread(#[from] SpreadError),
    /// One compute has two PCI ports.
    #[error("--compute-link names two places for index {0}: give it the one that is meant")]
    TwoLinks(u8),
    /// File drives would have no capacity.
    #[error("--file-drive-capacity is 0: use at least 1MiB")]
    NoCapacity,
    /// The coordinator's address is invalid.
    #[error(transparent)]
    Coordinator(#[from] AddressError),
    /// The fencing flags are invalid.
    #[error(transparent)]
    Fence(#[from] FenceConfigError),
    /// The flags for Lustre management targets are invalid.
    #[error(transparent)]
    Mgs(#[from] MgsArgsError),
    /// A flag of nnf-node-manager that stops the start.
    #[error(transparent)]
    NodeManager(#[from] NodeManagerError),
}

/// A checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// What the agent needs for its work on the rabbit.
    pub rabbit: Rabbit,
    /// Address of the Kubernetes API.
    pub api: Address,
    /// Address of the coordinator, if there is one, with the certificates for it.
    pub coordinator: Option<CoordinatorAddress>,
    /// What the health checks read, and how often.
    pub health: HealthConfig,
    /// The rabbit's storage.
    pub storage: LinuxConfig,
    /// Address for the kubelet's probes, if any.
    pub probes: Option<BindAddress>,
    /// Address for metrics, if any.
    pub metrics: Option<BindAddress>,
    /// Texts about parts of the command line that have no effect.
    pub notes: Vec<String>,
}

/// What the agent needs for its work on the rabbit.
#[derive(Debug, Clone)]
pub struct Rabbit {
    /// Name of the rabbit, and beneath which directories ClientMounts may mount.
    pub site: Site,
    /// Beneath which directory set-up hooks see a file system.
    pub temporary: TemporaryRoot,
    /// How many drives an allocation uses, and whether lost ones are replaced.
    pub policy: AllocationPolicy,
    /// Name of the agent's pod; empty outside Kubernetes.
    pub pod: String,
    /// Directories and programs for fencing.
    pub fence: FenceConfig,
    /// How to run commands on a Lustre management target.
    pub mgs: Mgs,
}

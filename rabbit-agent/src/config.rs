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
    container::args::ContainerConfig,
    fence::{FenceConfig, FenceConfigError},
    health::args::HealthConfig,
    lustre_mgt::args::{Mgs, MgsArgsError},
    movement::args::MovementConfig,
    node_manager::NodeManagerError,
    node_storage::desired::TemporaryRoot,
};

#[derive(Debug, Error)]
pub enum ConfigError {
    #[error(transparent)]
    Node(#[from] NodeNameError),
    #[error("{flag}")]
    Root {
        flag: &'static str,
        #[source]
        source: MountPointError,
    },
    /// One directory is within another: mounts beneath both could not be told apart.
    #[error("{first} {} and {second} {} overlap: use directories of which none is within another", .first_path.display(), .second_path.display())]
    Overlap { first: &'static str, first_path: PathBuf, second: &'static str, second_path: PathBuf },
    /// An empty part of a model number is contained in every model.
    #[error("--drive-model is empty: give a part of a model number, or leave it out to use all")]
    EmptyModel,
    #[error("--allocation-drives, --allocation-minimum")]
    Spread(#[from] SpreadError),
    #[error("--compute-link names two places for index {0}: give it the one that is meant")]
    TwoLinks(u8),
    /// File drives would have no capacity.
    #[error("--file-drive-capacity is 0: use at least 1MiB")]
    NoCapacity,
    #[error(transparent)]
    Coordinator(#[from] AddressError),
    #[error(transparent)]
    Fence(#[from] FenceConfigError),
    #[error(transparent)]
    Mgs(#[from] MgsArgsError),
    #[error(transparent)]
    NodeManager(#[from] NodeManagerError),
}

#[derive(Debug, Clone)]
pub struct Config {
    /// What the agent needs for its work on the rabbit.
    pub rabbit: Rabbit,
    pub api: Address,
    /// Address of the coordinator, if there is one, with the certificates for it.
    pub coordinator: Option<CoordinatorAddress>,
    /// What the health checks read, and how often.
    pub health: HealthConfig,
    pub storage: LinuxConfig,
    pub probes: Option<BindAddress>,
    pub metrics: Option<BindAddress>,
    /// Texts about parts of the command line that have no effect.
    pub notes: Vec<String>,
}

/// What the agent needs for its work on the rabbit.
#[derive(Debug, Clone)]
pub struct Rabbit {
    pub site: Site,
    pub temporary: TemporaryRoot,
    /// How many drives an allocation uses, and whether lost ones are replaced.
    pub policy: AllocationPolicy,
    /// Name of the agent's pod; empty outside Kubernetes.
    pub pod: String,
    pub fence: FenceConfig,
    pub mgs: Mgs,
    /// How workflows' containers are run, where they are.
    pub containers: Option<ContainerConfig>,
    /// The directory of their packages, where any are fetched.
    pub packages: Option<PathBuf>,
    pub movements: MovementConfig,
}

//! The command line and environment, turned once into a configuration that is known to be good.

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

/// A configuration that cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// Not a node.
    #[error(transparent)]
    Node(#[from] NodeNameError),
    /// Not a directory to mount beneath.
    #[error("{flag}")]
    Root {
        /// Which flag.
        flag: &'static str,
        /// Why.
        #[source]
        source: MountPointError,
    },
    /// One within another: what is mounted beneath both could not be told apart.
    #[error("{first} {} and {second} {} overlap: use directories of which none is within another", .first_path.display(), .second_path.display())]
    Overlap {
        /// A flag.
        first: &'static str,
        /// Its directory.
        first_path: PathBuf,
        /// Another flag.
        second: &'static str,
        /// Its directory.
        second_path: PathBuf,
    },
    /// Every model contains nothing.
    #[error("--drive-model is empty: give a part of a model number, or leave it out to use all")]
    EmptyModel,
    /// Fewer drives are taken than an allocation needs.
    #[error("--allocation-drives, --allocation-minimum")]
    Spread(#[from] SpreadError),
    /// A compute cannot be in two places.
    #[error("--compute-link names two places for index {0}: give it the one that is meant")]
    TwoLinks(u8),
    /// Drives of no size.
    #[error("--file-drive-capacity is 0: use at least 1MiB")]
    NoCapacity,
    /// Not a way to a coordinator.
    #[error(transparent)]
    Coordinator(#[from] AddressError),
    /// Not a way to hear of fences.
    #[error(transparent)]
    Fence(#[from] FenceConfigError),
    /// Not a way to a Lustre management target.
    #[error(transparent)]
    Mgs(#[from] MgsArgsError),
    /// A flag of nnf-node-manager that stops the start.
    #[error(transparent)]
    NodeManager(#[from] NodeManagerError),
}

/// A configuration that can.
#[derive(Debug, Clone)]
pub struct Config {
    /// The rabbit.
    pub rabbit: Rabbit,
    /// Where the API is.
    pub api: Address,
    /// Where the coordinator is, if there is one, with what it takes to be let in.
    pub coordinator: Option<CoordinatorAddress>,
    /// What of the rabbit is looked at, and how often.
    pub health: HealthConfig,
    /// The rabbit's storage.
    pub storage: LinuxConfig,
    /// Where the kubelet's probes are answered, if anywhere.
    pub probes: Option<BindAddress>,
    /// Where metrics are served, if anywhere.
    pub metrics: Option<BindAddress>,
    /// What of the command line has no effect, in words.
    pub notes: Vec<String>,
}

/// The rabbit that the agent works on.
#[derive(Debug, Clone)]
pub struct Rabbit {
    /// Its name, and where ClientMounts may mount.
    pub site: Site,
    /// Where set-up hooks see a file system.
    pub temporary: TemporaryRoot,
    /// How capacity is allocated.
    pub policy: AllocationPolicy,
    /// The pod's name, or nothing.
    pub pod: String,
    /// How computes are fenced.
    pub fence: FenceConfig,
    /// How a Lustre management target is spoken to.
    pub mgs: Mgs,
}

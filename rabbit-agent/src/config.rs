//! Turns the command line and environment into a checked configuration.

mod args;
pub mod bind;
mod check;
pub mod node_manager;

use std::path::PathBuf;

use agent::{
    coordinator::{AddressError, CoordinatorAddress},
    node::NodeNameError,
    site::Site,
};
use apiclient::{Address, CertificateFiles, ConnectError, connect, connect_certified};
pub use args::Args;
use fence::{FenceConfig, FenceConfigError};
use kube::Client;
use storage::desired::{MountPointError, SpreadError};
use storage_linux::LinuxConfig;
use thiserror::Error;

use crate::{
    config::{bind::BindAddress, node_manager::NodeManagerError},
    health::args::HealthConfig,
    kinds::{
        block_storage::desired::AllocationPolicy,
        container::args::ContainerConfig,
        lustre_mgt::args::{Mgs, MgsArgsError},
        movement::args::MovementConfig,
        node_storage::desired::TemporaryRoot,
    },
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
    #[error("{first} {} and {second} {} overlap: neither directory may lie within the other", .first_path.display(), .second_path.display())]
    Overlap { first: &'static str, first_path: PathBuf, second: &'static str, second_path: PathBuf },
    #[error("--drive-model is empty: give a part of a model number, or leave it out to use all")]
    EmptyModel,
    #[error("--allocation-drives, --allocation-minimum")]
    Spread(#[from] SpreadError),
    #[error("--compute-link is given twice for index {0}: keep one of them")]
    TwoLinks(u8),
    #[error("--file-drive-capacity is 0: use at least 1MiB")]
    NoCapacity,
    #[error(
        "--api https://{0} needs --ca, --certificate and --key: the API knows the rabbit by its certificate"
    )]
    NoCertificate(String),
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
    /// Settings for the work on the rabbit.
    pub rabbit: Rabbit,
    pub api: Address,
    /// This rabbit's certificate, with which it also proves its name to an API at `https://HOST:PORT`.
    pub certificate: Option<CertificateFiles>,
    /// Address of the coordinator and the certificates for it; `None` without a coordinator.
    pub coordinator: Option<CoordinatorAddress>,
    /// Sources and period of the health checks.
    pub health: HealthConfig,
    pub storage: LinuxConfig,
    /// The file to append all messages to and from PCIe switches to, if any.
    #[cfg(feature = "switchtec")]
    pub switchtec_record: Option<PathBuf>,
    /// Whether the agent only prints what it would do.
    pub dry_run: bool,
    /// Path of the socket for this rabbit's operators, if not the default.
    pub listen: Option<PathBuf>,
    pub probes: Option<BindAddress>,
    pub metrics: Option<BindAddress>,
    /// Log lines about command line options that have no effect.
    pub notes: Vec<String>,
}

impl Config {
    /// Returns a client of the API.
    ///
    /// # Errors
    /// When credentials are missing or cannot be used.
    pub async fn client(&self) -> Result<Client, ConnectError> {
        match (&self.api, &self.certificate) {
            (Address::Server(server), Some(files)) => connect_certified(server, files).await,
            (api, _) => connect(api).await,
        }
    }
}

/// Settings for the work on the rabbit.
#[derive(Debug, Clone)]
pub struct Rabbit {
    pub site: Site,
    pub temporary: TemporaryRoot,
    /// Number of drives for an allocation, and whether lost namespaces are replaced.
    pub policy: AllocationPolicy,
    /// Name of the agent's pod; empty outside Kubernetes.
    pub pod: String,
    pub fence: FenceConfig,
    pub mgs: Mgs,
    /// Settings for workflow containers; `None` if this rabbit runs none.
    pub containers: Option<ContainerConfig>,
    /// Directory of job packages; `None` if the agent fetches none.
    pub packages: Option<PathBuf>,
    pub movements: MovementConfig,
}

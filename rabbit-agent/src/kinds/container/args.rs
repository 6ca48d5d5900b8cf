//! Command line options for containers.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;

/// Longest time that podman may take to fetch an image.
const PULL: Duration = Duration::from_secs(30 * 60);

#[derive(Debug, Args)]
#[command(next_help_heading = "Containers")]
pub struct ContainerArgs {
    /// Run workflow containers with this podman, 4.3 or newer; without it this rabbit runs none. On Kubernetes leave it
    /// out: there the rabbit's kubelet runs them
    #[arg(long, env = "WARREN_PODMAN", value_name = "PROGRAM")]
    podman: Option<String>,

    /// The directory for the job packages of workflow containers, with room for those of all running jobs; the default
    /// is `packages` in the state directory. On Kubernetes the agent fetches job packages only with this option, and
    /// pods mount them from this path of the rabbit
    #[arg(long, env = "WARREN_PACKAGE_DIR", value_name = "DIR")]
    package_dir: Option<PathBuf>,

    /// The statically linked program that starts MPI ranks in containers; without it this rabbit runs no MPI
    #[arg(
        long,
        env = "WARREN_PODHELPER",
        value_name = "PATH",
        default_value = "/usr/libexec/warren/podhelper"
    )]
    podhelper: PathBuf,
}

/// Settings for running containers.
#[derive(Debug, Clone)]
pub struct ContainerConfig {
    /// Name or path of podman, or of a program that replaces it.
    pub program: String,
    /// Longest run of a podman command that neither fetches an image nor waits for containers to end.
    pub deadline: Duration,
    /// Longest time that podman may take to fetch an image.
    pub pull: Duration,
    /// Path of podhelper, the program that starts MPI ranks.
    pub podhelper: PathBuf,
    /// Directory with the configuration files, keys and shared directories of all NodeContainers.
    pub files: PathBuf,
    /// Directory of the job packages.
    pub packages: PathBuf,
}

impl ContainerArgs {
    /// Returns the directory of job packages; `None` where this agent fetches none.
    pub(crate) fn packages(&self, state: &Path) -> Option<PathBuf> {
        let runs = self.podman.as_ref().is_some_and(|program| !program.is_empty());
        self.package_dir.clone().or_else(|| runs.then(|| state.join("packages")))
    }

    /// Returns the configuration; `None` where this agent runs no containers.
    pub(crate) fn config(self, deadline: Duration, state: &Path) -> Option<ContainerConfig> {
        let packages = self.packages(state)?;
        let program = self.podman.filter(|program| !program.is_empty())?;
        let (podhelper, files) = (self.podhelper, state.join("containers"));
        Some(ContainerConfig { program, deadline, pull: PULL, podhelper, files, packages })
    }
}

//! Flags about containers.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;

/// How long fetching an image may take.
const PULL: Duration = Duration::from_secs(30 * 60);

#[derive(Debug, Args)]
#[command(next_help_heading = "Containers")]
pub struct ContainerArgs {
    /// Run the containers of workflows with this podman, 4.3 or newer; without it this rabbit runs none. On Kubernetes leave it
    /// out: there the rabbit's kubelet runs them
    #[arg(long, env = "WARREN_PODMAN", value_name = "PROGRAM")]
    podman: Option<String>,

    /// The directory with packages of workflows' containers, with room for those of all jobs that run; without it packages
    /// in the state directory. On Kubernetes the agent fetches packages only with this option, and the pods find the directory
    /// at this path of the rabbit
    #[arg(long, env = "WARREN_PACKAGE_DIR", value_name = "DIR")]
    package_dir: Option<PathBuf>,

    /// The program that starts the ranks of MPI in containers, linked to nothing; without it this rabbit runs no MPI
    #[arg(
        long,
        env = "WARREN_PODHELPER",
        value_name = "PATH",
        default_value = "/usr/libexec/warren/podhelper"
    )]
    podhelper: PathBuf,
}

/// How containers are run.
#[derive(Debug, Clone)]
pub struct ContainerConfig {
    /// podman, or what is called in its place.
    pub program: String,
    /// How long it may take for anything but fetching an image, and ending containers.
    pub deadline: Duration,
    /// How long it may fetch an image.
    pub pull: Duration,
    /// The program that starts the ranks of MPI.
    pub podhelper: PathBuf,
    /// The directory with the files that containers find in their configuration.
    pub files: PathBuf,
    /// The directory with packages.
    pub packages: PathBuf,
}

impl ContainerArgs {
    /// The directory of packages; `None` where none are fetched.
    pub(crate) fn packages(&self, state: &Path) -> Option<PathBuf> {
        let runs = self.podman.as_ref().is_some_and(|program| !program.is_empty());
        self.package_dir.clone().or_else(|| runs.then(|| state.join("packages")))
    }

    /// The configuration; `None` where no containers run.
    pub(crate) fn config(self, deadline: Duration, state: &Path) -> Option<ContainerConfig> {
        let packages = self.packages(state)?;
        let program = self.podman.filter(|program| !program.is_empty())?;
        let (podhelper, files) = (self.podhelper, state.join("containers"));
        Some(ContainerConfig { program, deadline, pull: PULL, podhelper, files, packages })
    }
}

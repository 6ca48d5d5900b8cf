//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::rsh::Rsh;

/// Longest wait in seconds, 136 years: the end of a longer wait might be beyond the range of the clock.
const LONGEST: u64 = u32::MAX as u64;

/// Starts the ranks of MPI in their pods and waits for peers in other pods. Under the name `rsh` it
/// is mpirun's remote shell.
#[derive(Debug, Parser)]
#[command(version, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Copy this program, with a link named `rsh`, into a directory that the pod's containers share
    Install(Install),
    /// Start commands for launchers that have the keys of this attempt
    Worker(Worker),
    /// Wait until every worker answers; on failure, name the workers that do not
    Wait(Wait),
    /// Wait until the containers on all rabbits of a run without MPI listen on a port; on failure, name
    /// those that do not
    Peers(Peers),
    /// Print the workers that answer now, one per line and in order, for elastic frameworks
    DiscoverHosts(DiscoverHosts),
    /// Make the directory of the destination into which a copy by dcp is written
    MakeDirectory(MakeDirectory),
    /// Start a command on a worker for mpirun
    #[command(skip)]
    Rsh(Rsh),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Install {
    /// Directory that the pod's containers share
    pub(crate) directory: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MakeDirectory {
    /// File or directory to copy
    pub(crate) source: PathBuf,
    /// File or directory to write
    pub(crate) destination: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Keys {
    /// Directory with the keys of this attempt
    #[arg(long = "keys", value_name = "DIR", env = "NNF_MPI_KEYS")]
    pub(crate) directory: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Worker {
    #[command(flatten)]
    pub(crate) keys: Keys,
    /// Set for the worker that init, the first process of the container, starts
    #[arg(long, hide = true)]
    pub(crate) is_child: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    pub(crate) keys: Keys,
    /// File with one worker per line
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "worker",
        required_unless_present = "worker"
    )]
    pub(crate) workers: Option<PathBuf>,
    /// Name of a single worker
    #[arg(long, value_name = "HOST")]
    pub(crate) worker: Option<String>,
    /// Longest wait in seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=LONGEST))]
    pub(crate) seconds: u64,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Peers {
    /// Port, for example the one in `NNF_CONTAINER_PORTS`
    #[arg(long)]
    pub(crate) port: u16,
    /// Longest wait in seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=LONGEST))]
    pub(crate) seconds: u64,
    /// Directory with the configuration files of the run
    #[arg(long, value_name = "DIR", default_value = "/nnf/config")]
    pub(crate) config: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DiscoverHosts {
    #[command(flatten)]
    pub(crate) keys: Keys,
    /// File with one worker per line
    #[arg(long, value_name = "FILE", default_value = "/nnf/config/workers")]
    pub(crate) workers: PathBuf,
    /// Longest wait for the answers
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(..=LONGEST))]
    pub(crate) seconds: u64,
}

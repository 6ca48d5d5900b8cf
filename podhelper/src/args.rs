//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::rsh::Rsh;

/// The longest time that anything is waited for: 136 years, which a clock can be asked for.
const LONGEST: u64 = u32::MAX as u64;

/// What runs in the pods of MPI, and waits for peers in others. Started under the name `rsh` it is the agent of mpirun.
#[derive(Debug, Parser)]
#[command(version, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Copy this program into a directory that the pod's containers share, there also as `rsh`
    Install(Install),
    /// Start what launchers with the keys of this attempt ask for
    Worker(Worker),
    /// Wait until every worker answers; fail with the names of those that do not
    Wait(Wait),
    /// Wait until the containers on all rabbits of a run without MPI listen on a port; fail with the names of those that do not
    Peers(Peers),
    /// Print the workers that answer now, a line each and in order, as elastic frameworks ask for hosts
    DiscoverHosts(DiscoverHosts),
    /// Start a command on a worker, as mpirun asks for it
    #[command(skip)]
    Rsh(Rsh),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Install {
    /// The directory
    pub(crate) directory: PathBuf,
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
    /// The first process of a container starts itself again, and reaps what is left behind
    #[arg(long, hide = true)]
    pub(crate) is_child: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    pub(crate) keys: Keys,
    /// File with a worker in each line
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "worker",
        required_unless_present = "worker"
    )]
    pub(crate) workers: Option<PathBuf>,
    /// One worker
    #[arg(long, value_name = "HOST")]
    pub(crate) worker: Option<String>,
    /// How long
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=LONGEST))]
    pub(crate) seconds: u64,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Peers {
    /// The port, such as the one in `NNF_CONTAINER_PORTS`
    #[arg(long)]
    pub(crate) port: u16,
    /// How long
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=LONGEST))]
    pub(crate) seconds: u64,
    /// Directory with the files of the run
    #[arg(long, value_name = "DIR", default_value = "/nnf/config")]
    pub(crate) config: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DiscoverHosts {
    #[command(flatten)]
    pub(crate) keys: Keys,
    /// File with a worker in each line
    #[arg(long, value_name = "FILE", default_value = "/nnf/config/workers")]
    pub(crate) workers: PathBuf,
    /// How long to wait for the answers
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(..=LONGEST))]
    pub(crate) seconds: u64,
}

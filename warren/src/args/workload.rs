//! The flags of `warren workload`: calls about a workload manager's jobs.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::parse_timeout;
use super::workflow::Hosts;

/// Calls of the gRPC service `Workloads`. Every call may be repeated at any time, with the same effect.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkloadVerb {
    /// Check a job's directives; creates nothing
    Check(Directives),
    /// Show the rabbits' total and free bytes for jobs
    Capacity,
    /// List a workload manager's jobs that have a workflow
    List(Manager),
    #[command(flatten)]
    Job(Call),
    /// Print a job's state after each change, until the job is gone
    Watch(Job),
}

/// One call about one job.
#[derive(Debug, Subcommand)]
pub(crate) enum Call {
    /// Check a job's directives, and create its workflow
    Create(Create),
    /// Set the job's nodes, and make its storage
    Setup(Setup),
    /// Copy data in and mount the storage; then the job may start
    Start(Start),
    /// After the job: unmount the storage, and copy data out
    PostRun(PostRun),
    /// Remove the job's storage, from any state; succeeds also for an unknown job
    Teardown(Teardown),
    /// Cancel copies, and remove the job's storage in a hurry; does not wait
    Abort(Abort),
    /// Show a job's state, its nodes, and the reasons why it waits
    Status(Job),
    /// Print the job's variables as NAME=VALUE lines, once its storage is mounted
    Env(Env),
}

/// A job, by its id and workload manager.
#[derive(Clone, Debug, Args)]
pub(crate) struct Job {
    /// Job ID of the workload manager, such as 4711
    pub job: String,
    #[command(flatten)]
    pub manager: Manager,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Manager {
    /// Name of the workload manager, such as slurm [default: wlm for root; user-UID for other users, reserved for that user]
    #[arg(long, value_name = "NAME", env = "WARREN_MANAGER", default_value_t = own_manager(), hide_default_value = true)]
    pub manager: String,
}

fn own_manager() -> String {
    let user = nix::unistd::geteuid();
    if user.is_root() { "wlm".to_owned() } else { format!("user-{user}") }
}

/// The time that a call may take.
#[derive(Clone, Debug, Args)]
pub(crate) struct Patience {
    /// Give up after this long, as in `90s` or `5m`, counted from the first call: the coordinator records this deadline
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_timeout)]
    pub timeout: Duration,
    /// Restart the deadline of a call that is repeated
    #[arg(long)]
    pub renew: bool,
    /// Request the state, and do not wait for it
    #[arg(long)]
    pub no_wait: bool,
}

/// The directives of a job.
#[derive(Debug, Args)]
pub(crate) struct Directives {
    /// #DW line for the job's storage, such as '#DW jobdw type=xfs capacity=1GiB name=scratch'
    #[arg(value_name = "DIRECTIVE")]
    pub directives: Vec<String>,
    /// Read the `#DW` lines among the first comments of this job script; reports #DW lines after them, which are ignored
    #[arg(long, value_name = "FILE", conflicts_with = "directives")]
    pub script: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(flatten)]
    pub job: Job,
    #[command(flatten)]
    pub directives: Directives,
    /// Owner of the storage, as a number [default: the user of this command]
    #[arg(long, value_name = "UID", requires = "group")]
    pub user: Option<u32>,
    /// The owner's group, as a number
    #[arg(long, value_name = "GID", requires = "user")]
    pub group: Option<u32>,
    /// Number of computes that the job may start without, if they or their rabbits are reported faulty or down [default: the
    /// script's #WARREN tolerance=COUNT, else 0]
    #[arg(long, value_name = "COUNT")]
    pub tolerance: Option<u32>,
    #[command(flatten)]
    pub patience: Patience,
}

#[derive(Debug, Args)]
pub(crate) struct Setup {
    #[command(flatten)]
    pub job: Job,
    /// The job's nodes in the job's order, as in compute-[1-3,8] [default: the nodes of an earlier call]
    #[arg(long, value_name = "HOSTLIST")]
    pub nodes: Option<Hosts>,
    #[command(flatten)]
    pub patience: Patience,
}

#[derive(Debug, Args)]
pub(crate) struct Start {
    #[command(flatten)]
    pub job: Job,
    /// Stop after data is copied in, before the mounts
    #[arg(long)]
    pub only_data: bool,
    /// Stop once the mounts are requested: `clientmount-agent mount` on each node waits for them
    #[arg(long, conflicts_with = "only_data")]
    pub only_asked: bool,
    #[command(flatten)]
    pub patience: Patience,
}

#[derive(Debug, Args)]
pub(crate) struct PostRun {
    #[command(flatten)]
    pub job: Job,
    /// Stop once the nodes are unmounted, before data is copied out
    #[arg(long)]
    pub only_nodes: bool,
    #[command(flatten)]
    pub patience: Patience,
}

#[derive(Debug, Args)]
pub(crate) struct Teardown {
    #[command(flatten)]
    pub job: Job,
    /// Do not wait for running copies
    #[arg(long)]
    pub hurry: bool,
    #[command(flatten)]
    pub patience: Patience,
}

#[derive(Debug, Args)]
pub(crate) struct Env {
    #[command(flatten)]
    pub job: Job,
    /// Print the variables before the mounts, as soon as the job is created
    #[arg(long)]
    pub ahead: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Abort {
    #[command(flatten)]
    pub job: Job,
    /// Reason for the abort, shown to users
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

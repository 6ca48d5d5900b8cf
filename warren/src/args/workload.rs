//! The command line of a workload manager's jobs.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::patience;
use super::workflow::Hosts;

/// One call of the service `Workloads` each. A call may be repeated at any time, with the same effect.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkloadVerb {
    /// Check a job's directives, and make nothing
    Check(Directives),
    /// Show how many bytes the rabbits have for jobs
    Capacity,
    /// Show which jobs of a workload manager have storage, or are getting or losing it
    List(Manager),
    #[command(flatten)]
    OfJob(Call),
    /// Show how a job is whenever that changes, until it is gone
    Watch(Job),
}

/// One call about one job.
#[derive(Debug, Subcommand)]
pub(crate) enum Call {
    /// Check a job's directives and take it on
    Create(Create),
    /// Name the job's nodes, and have its storage made
    Setup(Setup),
    /// Have data copied in and the storage mounted: then the job may start
    Start(Start),
    /// The job has ended: have the storage unmounted, and data copied out
    PostRun(PostRun),
    /// Have everything removed, from whatever state; a job that nobody knows is done with
    Teardown(Teardown),
    /// End what is going on, and have everything removed in a hurry; waits for nothing
    Abort(Abort),
    /// Show how a job is, its nodes, and what it waits for
    Status(Job),
    /// Print the job's variables, NAME=VALUE a line, once its storage is mounted
    Env(Env),
}

/// One job.
#[derive(Clone, Debug, Args)]
pub(crate) struct Job {
    /// What the workload manager calls the job, such as 4711
    pub job: String,
    #[command(flatten)]
    pub manager: Manager,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Manager {
    /// The workload manager, such as slurm [default: wlm for root, user-UID for others, whose ids no other user can take]
    #[arg(long, value_name = "NAME", env = "WARREN_MANAGER", default_value_t = own_manager(), hide_default_value = true)]
    pub manager: String,
}

fn own_manager() -> String {
    let user = nix::unistd::geteuid();
    if user.is_root() { "wlm".to_owned() } else { format!("user-{user}") }
}

/// How long a call may take.
#[derive(Clone, Debug, Args)]
pub(crate) struct Patience {
    /// Give up after this long, as in `90s` or `5m`; it counts from the first call, and is written down
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = patience)]
    pub timeout: Duration,
    /// Begin the time anew, for a call that is repeated
    #[arg(long)]
    pub renew: bool,
    /// Ask for it, and wait for nothing
    #[arg(long)]
    pub no_wait: bool,
}

/// What a job needs.
#[derive(Debug, Args)]
pub(crate) struct Directives {
    /// What the job needs, such as '#DW jobdw type=xfs capacity=1GiB name=scratch'
    #[arg(value_name = "DIRECTIVE")]
    pub directives: Vec<String>,
    /// Take the `#DW` lines among the comments that this job script begins with; others are named, and not read
    #[arg(long, value_name = "FILE", conflicts_with = "directives")]
    pub script: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(flatten)]
    pub job: Job,
    #[command(flatten)]
    pub directives: Directives,
    /// Who owns the storage, by number [default: who runs this command]
    #[arg(long, value_name = "UID", requires = "group")]
    pub user: Option<u32>,
    /// The owner's group, by number
    #[arg(long, value_name = "GID", requires = "user")]
    pub group: Option<u32>,
    /// How many of its computes the job may start without, when they or their rabbits report that they are faulty or down
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub tolerance: u32,
    #[command(flatten)]
    pub patience: Patience,
}

#[derive(Debug, Args)]
pub(crate) struct Setup {
    #[command(flatten)]
    pub job: Job,
    /// The job's nodes in its order, as in compute-[1-3,8] [default: those that an earlier call named]
    #[arg(long, value_name = "HOSTLIST")]
    pub nodes: Option<Hosts>,
    #[command(flatten)]
    pub patience: Patience,
}

#[derive(Debug, Args)]
pub(crate) struct Start {
    #[command(flatten)]
    pub job: Job,
    /// Stop when data is copied in, before anything is mounted
    #[arg(long)]
    pub only_data: bool,
    /// Stop when the mounts are asked for: `clientmount-agent mount` on each node waits for them
    #[arg(long, conflicts_with = "only_data")]
    pub only_asked: bool,
    #[command(flatten)]
    pub patience: Patience,
}

#[derive(Debug, Args)]
pub(crate) struct PostRun {
    #[command(flatten)]
    pub job: Job,
    /// Stop when the nodes are free, before data is copied out
    #[arg(long)]
    pub only_nodes: bool,
    #[command(flatten)]
    pub patience: Patience,
}

#[derive(Debug, Args)]
pub(crate) struct Teardown {
    #[command(flatten)]
    pub job: Job,
    /// Do not wait for what is being copied
    #[arg(long)]
    pub hurry: bool,
    #[command(flatten)]
    pub patience: Patience,
}

#[derive(Debug, Args)]
pub(crate) struct Env {
    #[command(flatten)]
    pub job: Job,
    /// Print them ahead of the mounts, once the job is created
    #[arg(long)]
    pub ahead: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Abort {
    #[command(flatten)]
    pub job: Job,
    /// Why, for people
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

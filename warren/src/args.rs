//! The command line. Its help texts are documentation: they name the purpose of each verb, units and defaults.

pub(crate) mod ca;
pub(crate) mod flux;
pub(crate) mod rabbits;
pub(crate) mod workflow;
pub(crate) mod workload;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::client::{CoordinatorArgs, ServerArgs};
use crate::failure::Failure;
use cli::Output;
use cli::help_on_a_screen;
use cli::{EXIT_STATUS_HELP, Exit};

/// The end of `--help`: the first commands for a newcomer, and where to find the exit statuses.
const FIRST_STEPS: &str = "\
First steps:
  warren nodes            is every node connected and healthy?
  warren workflow show    which jobs have storage, and in which state?
  warren run '#DW jobdw type=xfs capacity=1GiB name=s' -- sh -c 'df $DW_JOB_s'

Exit status: 0 done, 2 wrong usage, 3 try again; for all of them see --help-all";

/// Runs jobs with near-node flash storage, and shows nodes, mounts and workflows.
#[derive(Debug, Parser)]
#[command(name = "warren", version, after_help = FIRST_STEPS, after_long_help = EXIT_STATUS_HELP, max_term_width = 110, arg_required_else_help = true, defer(help_on_a_screen))]
pub(crate) struct CommandLine {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub coordinator: CoordinatorArgs,
    /// Print JSON instead of tables and text
    ///
    /// Results go to standard output. Errors and notes go to standard error, one object per line.
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,
    /// After a failure, also print the messages of objects and nodes
    #[arg(long, global = true, help_heading = "Output")]
    pub verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a command: make its storage first, remove it afterwards
    Run(workflow::Run),
    /// Show every node: role, rabbit, connection, health
    Nodes,
    /// Show computes that are plugged into wrong ports of a rabbit
    ///
    /// Compares the namespaces that each compute reaches with those that its rabbit has attached to its port. Only
    /// storage that some computes see and others do not can show a wrong cable: an NnfSystemStorage with `shared:
    /// false` tells all computes apart.
    Cabling,
    /// Show rabbits as workload managers see them; disable them
    #[command(subcommand)]
    Rabbit(rabbits::RabbitVerb),
    /// Show every mount: desired state, actual state, error
    Mounts(Mounts),
    /// Create, advance, show and remove workflows
    #[command(subcommand)]
    Workflow(workflow::WorkflowVerb),
    /// Create, show and destroy storage that outlives its job
    #[command(subcommand)]
    Persistent(workflow::PersistentVerb),
    /// Show workflows' containers: rabbit, phase, reason
    Containers(Containers),
    /// Show workflows' data movements: how far, why they wait or failed
    Movements(Movements),
    /// Show the logs of a workflow's containers
    ///
    /// Without Kubernetes it prints the last 8 KiB of each log. It requests the logs of running containers from the
    /// rabbits' agents, and names each rabbit that does not answer within 10 s. Teardown removes the logs.
    Logs(Logs),
    /// Wait until objects are mounted, unmounted, ready or deleted
    Wait(Wait),
    /// Call this node's agent: mounts of a job, plan, state
    Node(Node),
    /// Show what this node's agent would do or destroy for objects
    ///
    /// The agent plans, and changes nothing. A rabbit's agent plans for NnfNodeBlockStorages, NnfNodeStorages,
    /// ClientMounts and NodeContainers, a compute's agent for ClientMounts.
    Plan(Plan),
    /// Show objects of any kind that the API serves
    Get(Get),
    /// Create or change the objects in files
    Apply(Apply),
    /// Delete objects, and wait until they are gone
    Delete(Delete),
    /// Manage the storage of a job, for scripts of workload managers
    ///
    /// Every call may be repeated: it skips the steps that are done already.
    #[command(subcommand)]
    Workload(workload::WorkloadVerb),
    /// Write and check Flux's files of rabbits; look rabbits up
    ///
    /// The files and answers are those of `flux rabbitmapping`, `flux dws2jgf` and `flux getrabbit` of flux-coral2.
    #[command(subcommand)]
    Flux(flux::FluxVerb),
    /// Write all objects of a coordinator's own API to a file
    ///
    /// `coordinator restore` reads it. An existing file is replaced.
    Backup {
        /// File to write, with mode 0600
        file: PathBuf,
    },
    /// Issue and renew nodes' certificates by an authority of your own
    ///
    /// Works on files of this host only.
    #[command(subcommand)]
    Ca(ca::CaVerb),
    /// Print the completion script for a shell
    Completions {
        #[arg(value_enum)]
        shell: Shell,
    },
}

impl Verb {
    /// Returns whether the verb creates objects that it must remove after a signal, and so handles signals itself.
    pub(crate) fn handles_signals(&self) -> bool {
        use workflow::PersistentVerb::{Create, Destroy};
        matches!(self, Self::Run(_) | Self::Persistent(Create(_) | Destroy { .. }))
    }
}

/// A request to this node's agent.
#[derive(Debug, Args)]
pub(crate) struct Node {
    #[command(subcommand)]
    pub verb: nodeclient::Verb,
}

impl CommandLine {
    /// Returns whether `--json` was given, before the verb or after it.
    pub(crate) fn is_json(&self) -> bool {
        self.global.json || matches!(&self.verb, Verb::Node(node) if node.verb.is_json())
    }
}

/// Parses a timeout, which must be longer than 0.
pub(crate) fn parse_timeout(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() {
        return Err("a timeout of 0 gives up at once: write at least 1s".to_owned());
    }
    Ok(time)
}

/// Prints help, the version or the error of the command line, and exits. Prints errors in JSON with `--json`.
pub(crate) fn exit_with_usage(error: &clap::Error) -> ! {
    let json = std::env::args_os()
        .take_while(|word| word != "--")
        .any(|word| word == OsStr::new("--json"));
    if !error.use_stderr() || !json {
        error.exit();
    }
    let text = error.to_string();
    let text = text.trim_end().strip_prefix("error: ").unwrap_or(&text);
    Output::new(json).failure(&Failure::new(Exit::Usage, text));
    std::process::exit(Exit::Usage as i32)
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Files {
    /// YAML or JSON file, directory of such files, or - for standard input (repeatable; read in the order given)
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Namespace of objects without one
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
}

#[derive(Debug, Args)]
pub(crate) struct Apply {
    #[command(flatten)]
    pub files: Files,
    /// Let the API validate the objects, but store nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// The namespaces to search.
#[derive(Clone, Debug, Args)]
pub(crate) struct Scope {
    /// Namespace; a node's objects are in the namespace of its name
    #[arg(
        short,
        long,
        value_name = "NAMESPACE",
        default_value = "default",
        conflicts_with = "all_namespaces"
    )]
    pub namespace: String,
    /// Search all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    /// Table with all columns, also those of lower priority
    Wide,
    Json,
    Yaml,
    /// One KIND/NAME per line
    Name,
}

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Kind of the objects: plural, singular, short name or Kind, as in `clientmounts`, `nnfnode`, `NnfNodeStorage`
    pub kind: String,
    /// Name of a single object
    #[arg(conflicts_with = "all_namespaces")]
    pub name: Option<String>,
    #[command(flatten)]
    pub scope: Scope,
    /// Only objects with these labels, as in `a=b,c!=d`
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Keep running, and print changes as they occur
    #[arg(short, long)]
    pub watch: bool,
    /// Format of the output
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "table")]
    pub output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Mounts {
    /// Only mounts of these nodes, as in compute-[1-3,8] (repeatable)
    #[arg(long, value_name = "HOSTLIST")]
    pub node: Vec<workflow::Hosts>,
    /// Only mounts of this workflow, by name
    #[arg(long, value_name = "NAME")]
    pub workflow: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Containers {
    /// Show the containers of this workflow only
    pub workflow: Option<String>,
    /// Kubernetes namespace of the workflows
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Movements {
    #[command(subcommand)]
    pub verb: Option<MovementVerb>,
    /// Only the movements of this workflow
    pub workflow: Option<String>,
    /// Kubernetes namespace of the workflows
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Keep running, and print each movement again when it changes
    #[arg(short, long)]
    pub watch: bool,
    /// Show the files that were not copied, of each failed movement the first hundred or so
    #[arg(long, conflicts_with = "watch")]
    pub failed: bool,
}

/// Maximum bytes per second; `None` for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MovementRate(pub Option<u64>);

impl FromStr for MovementRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        match text.parse::<ByteSize>()? {
            ByteSize(0) => Err("a rate of 0 copies nothing: use none for no limit".to_owned()),
            ByteSize(rate) => Ok(Self(Some(rate))),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum MovementVerb {
    /// Cancel all data movements of a workflow that have not ended
    Cancel {
        /// Name of the workflow
        workflow: String,
        /// Kubernetes namespace of the workflow
        #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
        namespace: String,
    },
    /// Limit the bytes per second of each data movement of a workflow, also while it runs
    Limit {
        /// Name of the workflow
        workflow: String,
        /// Bytes per second, e.g. 500MiB, or none; limits of rabbit and profile hold beside it
        rate: MovementRate,
        /// Kubernetes namespace of the workflow
        #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
        namespace: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Name of the workflow
    pub workflow: String,
    /// Kubernetes namespace of the workflow
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Only logs of containers on these rabbits, as in rabbit-[1-3] (repeatable)
    #[arg(long, value_name = "HOSTLIST")]
    pub rabbit: Vec<workflow::Hosts>,
    /// Only the last LINES lines of each log
    #[arg(long, value_name = "LINES")]
    pub tail: Option<i64>,
}

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// KIND/NAME of objects that the agent knows; without objects, all that it knows
    #[arg(value_name = "KIND/NAME", conflicts_with_all = ["files", "workflow"])]
    pub objects: Vec<String>,
    /// Plan for the objects in this YAML or JSON file, directory of such files, or - for standard input (repeatable)
    #[arg(short, long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Namespace of objects without one [default: the node]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Plan for the deletion of the objects
    #[arg(long)]
    pub delete: bool,
    /// Plan for this workflow's objects on all nodes, by the coordinator
    #[arg(long, value_name = "NAME", conflicts_with_all = ["files", "delete", "agent"])]
    pub workflow: Option<String>,
    /// With --workflow: what the nodes would do now, or in Teardown
    #[arg(long, value_enum, value_name = "STATE", default_value = "now", requires = "workflow")]
    pub state: PlannedState,
    /// Unix socket of the agent [default: /run/warren/clientmount-agent.sock, on a rabbit rabbit-agent.sock beside it]
    #[arg(long, value_name = "PATH", env = "WARREN_AGENT")]
    pub agent: Option<PathBuf>,
}

/// The state of a workflow for which nodes plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlannedState {
    /// Its objects as they are now
    Now,
    /// All its objects removed
    Teardown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Condition {
    /// Every mount has the desired state mounted, and is mounted
    Mounted,
    /// Every mount has the desired state unmounted and is unmounted, or the object is gone
    Unmounted,
    /// The object has reached its desired state
    Ready,
    /// The object is gone
    Deleted,
}

#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// KIND/NAME (repeatable), or one KIND with --selector
    #[arg(required = true)]
    pub objects: Vec<String>,
    #[command(flatten)]
    pub scope: Scope,
    /// Wait for all objects with these labels, as in `a=b,c!=d`; for mounted and ready at least one must exist
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Condition to wait for
    #[arg(long = "for", value_enum, value_name = "CONDITION")]
    pub condition: Condition,
    /// Give up after this long, as in `90s` or `5m`
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_timeout)]
    pub timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// KIND and names, or KIND/NAME
    #[arg(value_name = "KIND NAME", required_unless_present = "files", conflicts_with = "files")]
    pub objects: Vec<String>,
    /// Delete the objects in these files, last first
    #[arg(short, long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Wait until the objects are gone
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub wait: bool,
    /// Give up waiting after this long, as in `90s` or `5m`
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_timeout)]
    pub timeout: Duration,
    /// Succeed also if an object does not exist
    #[arg(long)]
    pub ignore_not_found: bool,
}

#[cfg(test)]
mod tests;

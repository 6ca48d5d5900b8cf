//! The command line. Its help is documentation: what each verb does, in which units, with which defaults.

pub(crate) mod workflow;
pub(crate) mod workload;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::client::{CoordinatorArgs, ServerArgs};
use crate::failure::Failure;
use help::help_on_a_screen;
use nodeclient::Output;
use nodeclient::{EXIT_STATUS_HELP, EXIT_STATUS_SHORT, Exit};

/// Near-node flash at hand: what is mounted where, what is stuck and why.
#[derive(Debug, Parser)]
#[command(name = "warren", version, after_help = EXIT_STATUS_SHORT, after_long_help = EXIT_STATUS_HELP, max_term_width = 110, arg_required_else_help = true, defer(help_on_a_screen))]
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
    /// Print JSON instead of tables and prose
    ///
    /// Results go to standard output, errors and notes to standard error, an object a line.
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,
    /// Also tell, after a failure, what each object and node says
    #[arg(long, global = true, help_heading = "Output")]
    pub verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a command with storage made before and removed after it
    Run(workflow::Run),
    /// Drive and examine workflows
    #[command(subcommand)]
    Workflow(workflow::WorkflowVerb),
    /// For a workload manager's scripts: a job's storage
    ///
    /// Each call may be repeated: it says what is done already, and does the rest.
    #[command(subcommand)]
    Workload(workload::WorkloadVerb),
    /// Make, show and destroy storage that outlives its job
    #[command(subcommand)]
    Persistent(workflow::PersistentVerb),
    /// Create or change the objects in files
    Apply(Apply),
    /// Show objects of any kind the API serves
    Get(Get),
    /// Show every node: role, place, connection, health
    Nodes,
    /// Show every mount: what is wanted, what is there, what failed
    Mounts(Mounts),
    /// Show workflows' containers: where, how far, what they wait for
    Containers(Containers),
    /// Show workflows' data movements: how far, why they wait or failed
    Movements(Movements),
    /// Show the logs of a workflow's containers
    ///
    /// Without Kubernetes the last 8 KiB of each: what runs is asked for, and a rabbit that does not answer within 10 s is named.
    /// Teardown removes them.
    Logs(Logs),
    /// Ask this node's agent: for a job's mounts, what it would do
    Node(Node),
    /// Show the steps of this node's agent for ClientMounts in files
    ///
    /// It changes nothing.
    Plan(Plan),
    /// Wait until objects are mounted, unmounted, ready or deleted
    Wait(Wait),
    /// Delete objects, and wait until they are gone
    Delete(Delete),
    /// Write all objects of a coordinator's own API to a file
    ///
    /// `coordinator restore` reads it. A file that is there is replaced.
    Backup {
        /// Where to write it, with mode 0600
        file: PathBuf,
    },
    /// Print the completions for a shell
    Completions {
        #[arg(value_enum)]
        shell: Shell,
    },
}

impl Verb {
    /// It makes what it has to remove, and so takes signals itself.
    pub(crate) fn ends_by_itself(&self) -> bool {
        use workflow::PersistentVerb::{Create, Destroy};
        matches!(self, Self::Run(_) | Self::Persistent(Create(_) | Destroy { .. }))
    }
}

/// What is asked of this node's agent.
#[derive(Debug, Args)]
pub(crate) struct Node {
    #[command(subcommand)]
    pub verb: nodeclient::Verb,
}

impl CommandLine {
    /// Whether JSON is wanted, wherever that was said.
    pub(crate) fn is_json(&self) -> bool {
        self.global.json || matches!(&self.verb, Verb::Node(node) if node.verb.is_json())
    }
}

/// A time to wait that is not over before it begins.
pub(crate) fn patience(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() {
        return Err("nothing is done in no time: write at least 1s".to_owned());
    }
    Ok(time)
}

/// Ends with help or a version, or says what is wrong with the command line; in JSON when that was asked for.
pub(crate) fn refuse(error: &clap::Error) -> ! {
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

/// Objects from files.
#[derive(Clone, Debug, Args)]
pub(crate) struct Files {
    /// YAML or JSON file, directory of such files, or - for standard input (repeatable; taken in the order given)
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Namespace of objects that name none
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
}

#[derive(Debug, Args)]
pub(crate) struct Apply {
    #[command(flatten)]
    pub files: Files,
    /// Let the API check everything, but store nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Which namespaces.
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
    /// All namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    /// With the columns of lesser priority
    Wide,
    Json,
    Yaml,
    /// KIND/NAME
    Name,
}

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Kind: plural, singular, short name or Kind, as in `clientmounts`, `nnfnode`, `NnfNodeStorage`
    pub kind: String,
    /// Only the object of this name
    #[arg(conflicts_with = "all_namespaces")]
    pub name: Option<String>,
    #[command(flatten)]
    pub scope: Scope,
    /// Only objects with these labels, as in `a=b,c!=d`
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Go on and print changes as they come
    #[arg(short, long)]
    pub watch: bool,
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
    /// Only those of this workflow
    pub workflow: Option<String>,
    /// Kubernetes namespace of the workflows
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
}

#[derive(Debug, Args)]
pub(crate) struct Movements {
    /// Only those of this workflow
    pub workflow: Option<String>,
    /// Kubernetes namespace of the workflows
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Go on and print each movement again when it changes
    #[arg(short, long)]
    pub watch: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Logs {
    pub workflow: String,
    /// Kubernetes namespace of the workflow
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Only of containers on these rabbits, as in rabbit-[1-3] (repeatable)
    #[arg(long, value_name = "HOSTLIST")]
    pub rabbit: Vec<workflow::Hosts>,
    /// Only the last lines of each log, so many
    #[arg(long, value_name = "LINES")]
    pub tail: Option<i64>,
}

#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub files: Files,
    /// Unix socket of the agent to ask
    #[arg(
        long,
        value_name = "PATH",
        env = "WARREN_AGENT",
        default_value = "/run/warren/clientmount-agent.sock"
    )]
    pub agent: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Condition {
    /// Wanted mounted, and mounted
    Mounted,
    /// Wanted unmounted and unmounted, or gone
    Unmounted,
    /// As the object wants to be
    Ready,
    /// Gone
    Deleted,
}

#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// KIND/NAME (repeatable), or with --selector one KIND
    #[arg(required = true)]
    pub objects: Vec<String>,
    #[command(flatten)]
    pub scope: Scope,
    /// All objects with these labels, as in `a=b,c!=d`; for mounted and ready one must exist
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    #[arg(long = "for", value_enum, value_name = "CONDITION")]
    pub condition: Condition,
    /// Give up after this long, as in `90s` or `5m`
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = patience)]
    pub timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Kind and names
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
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = patience)]
    pub timeout: Duration,
    /// An object that does not exist is no error
    #[arg(long)]
    pub ignore_not_found: bool,
}

#[cfg(test)]
mod tests;

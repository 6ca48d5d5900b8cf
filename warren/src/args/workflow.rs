//! The flags of workflows and persistent storage.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use api::WorkflowState;
use clap::{Args, Subcommand};
use directive::hostlist::{self, HostlistError};

use super::parse_timeout;
use crate::workflow::launch::Launcher;

/// Names of nodes, parsed from a host list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts(pub Vec<String>);

impl Hosts {
    /// Merges several lists in their order, without duplicates.
    pub(crate) fn merge(lists: &[Self]) -> Vec<String> {
        let mut known = std::collections::HashSet::new();
        let names = lists.iter().flat_map(|list| &list.0);
        names.filter(|name| known.insert(*name)).cloned().collect()
    }
}

impl FromStr for Hosts {
    type Err = HostlistError;

    fn from_str(text: &str) -> Result<Self, HostlistError> {
        hostlist::expand(text).map(Self)
    }
}

/// Namespace, name and owner of a workflow.
#[derive(Clone, Debug, Args)]
pub(crate) struct Owner {
    /// Namespace of the workflow
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Name of the workflow [default: warren- and 8 random digits]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Owner of the storage, as a number [default: the user of this command]
    #[arg(long, value_name = "UID")]
    pub user: Option<u32>,
    /// The owner's group, as a number [default: the group of this command]
    #[arg(long, value_name = "GID")]
    pub group: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// #DW line for the job's storage, such as '#DW jobdw type=xfs capacity=1GiB name=scratch'
    #[arg(value_name = "DIRECTIVE", required = true)]
    pub directives: Vec<String>,
    /// The job's computes, as in compute-[1-3,8] [default: this host]
    #[arg(long, value_name = "HOSTLIST")]
    pub nodes: Option<Hosts>,
    #[command(flatten)]
    pub owner: Owner,
    /// Command line that starts the command on the computes, as in `ssh {node} env {env}` [default: start it once, on this host]
    ///
    /// A line with {node} starts the command once for each node. Any other line starts it once, with the host list in place of
    /// {nodes}, as in `srun -w {nodes}`. {env} becomes NAME=VALUE words, {user} and {group} numbers. Without a launcher the command
    /// runs as the job's user.
    #[arg(long, value_name = "LINE", env = "WARREN_LAUNCHER")]
    pub launcher: Option<Launcher>,
    /// Show which storage the job would get on which rabbits, and what would fail; make nothing and run nothing
    #[arg(long, conflicts_with_all = ["timeline", "svg"])]
    pub dry_run: bool,
    /// Give up if a state takes longer than this, as in `90s` or `5m`
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_timeout)]
    pub timeout: Duration,
    /// Print a timeline of states, directives and nodes at the end
    #[arg(long)]
    pub timeline: bool,
    /// Write the timeline to an SVG image; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Command to run, with its arguments
    #[arg(last = true, required_unless_present = "dry_run")]
    pub command: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowVerb {
    /// Create a workflow, in state Proposal
    Create(Create),
    /// Show a workflow, or all of them
    Show(Show),
    /// Request the next state, and wait until it is ready
    Advance(Advance),
    /// Request Teardown from any state, and wait until it is ready
    Teardown(Teardown),
    /// Tear down and delete a workflow
    Delete(WorkflowName),
    /// Show when states, directives and nodes began and ended
    Timeline(TimelineArgs),
    /// Show all objects of a workflow, and the reasons why it waits
    Investigate(WorkflowName),
    /// Remove a workflow that is stuck: shows the plan, and with --yes carries it out
    Purge(Purge),
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// #DW line for the job's storage, such as '#DW jobdw type=xfs capacity=1GiB name=scratch'
    #[arg(value_name = "DIRECTIVE", required = true)]
    pub directives: Vec<String>,
    #[command(flatten)]
    pub owner: Owner,
    /// Job ID of the workload manager [default: the workflow's name]
    #[arg(long, value_name = "ID")]
    pub job: Option<String>,
    /// Name of the workload manager
    #[arg(long, value_name = "NAME", default_value = "warren")]
    pub wlm: String,
}

/// Name and namespace of one workflow.
#[derive(Debug, Args)]
pub(crate) struct WorkflowName {
    /// Name of the workflow
    pub name: String,
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Give up waiting after this long, as in `90s` or `5m`
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_timeout)]
    pub timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Show this workflow, with its directives, their rabbits, and the reasons why it waits
    pub name: Option<String>,
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
}

#[derive(Debug, Args)]
pub(crate) struct Advance {
    #[command(flatten)]
    pub workflow: WorkflowName,
    /// Advance through all states up to this one [default: the next state]
    #[arg(long, value_name = "STATE", value_parser = parse_state)]
    pub to: Option<WorkflowState>,
    /// The job's computes, as in compute-[1-3,8]; written into the workflow's Computes
    #[arg(long, value_name = "HOSTLIST")]
    pub nodes: Option<Hosts>,
}

#[derive(Debug, Args)]
pub(crate) struct Teardown {
    #[command(flatten)]
    pub workflow: WorkflowName,
    /// Do not copy data out
    #[arg(long)]
    pub hurry: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TimelineArgs {
    #[command(flatten)]
    pub workflow: WorkflowName,
    /// Also write the timeline to an SVG image; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Purge {
    #[command(flatten)]
    pub workflow: WorkflowName,
    /// Carry out the plan
    #[arg(long)]
    pub yes: bool,
    /// Also remove finalizers from objects that stay; the plan names what may remain on which node
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PersistentVerb {
    /// Show all persistent storage: kind, owner, state, users
    List {
        #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
        namespace: String,
    },
    /// Show one persistent storage: rabbits, users, error
    Show {
        /// Name of the storage
        storage: String,
        #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
        namespace: String,
    },
    /// Create persistent storage
    Create(CreatePersistent),
    /// Destroy persistent storage that no workflow uses
    Destroy {
        /// Name of the storage
        storage: String,
        #[command(flatten)]
        owner: Owner,
        /// Give up if a state takes longer than this, as in `90s` or `5m`
        #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_timeout)]
        timeout: Duration,
    },
    /// Take over persistent storage that the Go controllers made; its data stays as it is
    Adopt(Adoption),
    /// Give adopted storage back to the Go controllers; its data stays as it is
    Release(Adoption),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["storage", "all"]))]
pub(crate) struct Adoption {
    /// Names of the storage
    #[arg(value_name = "STORAGE")]
    pub storage: Vec<String>,
    /// All storage of the namespace to which this applies
    #[arg(long)]
    pub all: bool,
    /// Print the steps, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
}

#[derive(Debug, Args)]
pub(crate) struct CreatePersistent {
    /// Name of the storage
    pub storage: String,
    /// Type of the file system: raw, xfs, gfs2 or lustre
    #[arg(long = "type", value_name = "TYPE")]
    pub file_system: String,
    /// Capacity, such as 1TiB: the total of a Lustre file system, else per compute. Leave it out for a management target alone
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<String>,
    /// Name of the NnfStorageProfile [default: the site's default]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Computes whose rabbits hold the storage, as in compute-[1-3,8]; not needed for Lustre
    #[arg(long, value_name = "HOSTLIST")]
    pub nodes: Option<Hosts>,
    #[command(flatten)]
    pub owner: Owner,
    /// Give up if a state takes longer than this, as in `90s` or `5m`
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_timeout)]
    pub timeout: Duration,
}

fn parse_state(text: &str) -> Result<WorkflowState, String> {
    match WorkflowState::from(text) {
        WorkflowState::Other(_) => {
            Err(format!("write one of {}", WorkflowState::VALUES.join(", ")))
        }
        state => Ok(state),
    }
}

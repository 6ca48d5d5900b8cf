//! The command line of workflows.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use api::WorkflowState;
use clap::{Args, Subcommand};
use directive::hostlist::{self, HostlistError};

use super::patience;
use crate::workflow::launch::Launcher;

/// Nodes, from a host list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts(pub Vec<String>);

impl Hosts {
    /// The nodes of several lists, each once, in their order.
    pub(crate) fn all(lists: &[Self]) -> Vec<String> {
        let mut seen = std::collections::HashSet::new();
        let names = lists.iter().flat_map(|list| &list.0);
        names.filter(|name| seen.insert(*name)).cloned().collect()
    }
}

impl FromStr for Hosts {
    type Err = HostlistError;

    fn from_str(text: &str) -> Result<Self, HostlistError> {
        hostlist::expand(text).map(Self)
    }
}

/// Whose workflow.
#[derive(Clone, Debug, Args)]
pub(crate) struct Owner {
    /// Namespace of the workflow
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Name of the workflow [default: warren- and 8 random digits]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Who owns the storage, by number [default: who runs this command]
    #[arg(long, value_name = "UID")]
    pub user: Option<u32>,
    /// The owner's group, by number [default: of who runs this command]
    #[arg(long, value_name = "GID")]
    pub group: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// What the job needs, such as '#DW jobdw type=xfs capacity=1GiB name=scratch'
    #[arg(value_name = "DIRECTIVE", required = true)]
    pub directives: Vec<String>,
    /// The job's computes, as in compute-[1-3,8] [default: this host]
    #[arg(long, value_name = "HOSTLIST")]
    pub nodes: Option<Hosts>,
    #[command(flatten)]
    pub owner: Owner,
    /// How the command gets to the computes, as in `ssh {node} env {env}` [default: once, on this host]
    ///
    /// With {node} in it, it starts the command once for each node; else once, with the host list in place of {nodes}, as in
    /// `srun -w {nodes}`. {env} becomes NAME=VALUE words, {user} and {group} numbers. Without it the command runs as the job's
    /// user.
    #[arg(long, value_name = "LINE", env = "WARREN_LAUNCHER")]
    pub launcher: Option<Launcher>,
    /// Give up on a state after this long, as in `90s` or `5m`
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = patience)]
    pub timeout: Duration,
    /// Show at the end when what happened
    #[arg(long)]
    pub timeline: bool,
    /// Write when what happened to an SVG image; one that is there is replaced
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// The command
    #[arg(last = true, required = true)]
    pub command: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowVerb {
    /// Create a workflow in Proposal
    Create(Create),
    /// Show a workflow, or all of them
    Show(Show),
    /// Ask for the next state, and wait until it is ready
    Advance(Advance),
    /// Ask for Teardown from whatever state, and wait until it is ready
    Teardown(Teardown),
    /// Tear down and delete
    Delete(Named),
    /// Show when what happened: by state, directive and node
    Timeline(TimelineArgs),
    /// Show every object of a workflow, and what it waits for
    Investigate(Named),
    /// Get rid of a workflow in whatever state; shows the plan, and does it with --yes
    Purge(Purge),
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// What the job needs, such as '#DW jobdw type=xfs capacity=1GiB name=scratch'
    #[arg(value_name = "DIRECTIVE", required = true)]
    pub directives: Vec<String>,
    #[command(flatten)]
    pub owner: Owner,
    /// The workload manager's job [default: the workflow's name]
    #[arg(long, value_name = "ID")]
    pub job: Option<String>,
    /// The workload manager
    #[arg(long, value_name = "NAME", default_value = "warren")]
    pub wlm: String,
}

/// One workflow.
#[derive(Debug, Args)]
pub(crate) struct Named {
    /// Name of the workflow
    pub name: String,
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Give up waiting after this long, as in `90s` or `5m`
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = patience)]
    pub timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Only this one, with its directives, where they are, and what it waits for
    pub name: Option<String>,
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
}

#[derive(Debug, Args)]
pub(crate) struct Advance {
    #[command(flatten)]
    pub workflow: Named,
    /// Go on to this state, one after the other [default: the next state]
    #[arg(long, value_name = "STATE", value_parser = state)]
    pub to: Option<WorkflowState>,
    /// The job's computes, as in compute-[1-3,8]: fills Computes
    #[arg(long, value_name = "HOSTLIST")]
    pub nodes: Option<Hosts>,
}

#[derive(Debug, Args)]
pub(crate) struct Teardown {
    #[command(flatten)]
    pub workflow: Named,
    /// Without saving data
    #[arg(long)]
    pub hurry: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TimelineArgs {
    #[command(flatten)]
    pub workflow: Named,
    /// Write an SVG image; one that is there is replaced
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Purge {
    #[command(flatten)]
    pub workflow: Named,
    /// Do what the plan says
    #[arg(long)]
    pub yes: bool,
    /// Also take finalizers off what does not go; the plan says what may stay behind on which node
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
    /// Show one persistent storage: where it is, who uses it, what is wrong with it
    Show {
        /// Name of the storage
        storage: String,
        #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
        namespace: String,
    },
    /// Make persistent storage
    Create(CreatePersistent),
    /// Destroy persistent storage that nobody uses
    Destroy {
        /// Name of the storage
        storage: String,
        #[command(flatten)]
        owner: Owner,
        /// Give up on a state after this long, as in `90s` or `5m`
        #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = patience)]
        timeout: Duration,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreatePersistent {
    /// Name of the storage
    pub storage: String,
    /// raw, xfs, gfs2 or lustre
    #[arg(long = "type", value_name = "TYPE")]
    pub file_system: String,
    /// Such as 1TiB; of a Lustre in all, else for each compute. A stand-alone management target takes none
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<String>,
    /// NnfStorageProfile [default: the site's default]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Computes whose rabbits hold it, as in compute-[1-3,8]; Lustre needs none
    #[arg(long, value_name = "HOSTLIST")]
    pub nodes: Option<Hosts>,
    #[command(flatten)]
    pub owner: Owner,
    /// Give up on a state after this long, as in `90s` or `5m`
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = patience)]
    pub timeout: Duration,
}

fn state(text: &str) -> Result<WorkflowState, String> {
    match WorkflowState::from(text) {
        WorkflowState::Other(_) => {
            Err(format!("write one of {}", WorkflowState::VALUES.join(", ")))
        }
        state => Ok(state),
    }
}

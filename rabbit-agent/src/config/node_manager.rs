//! Accepts the command line and environment of nnf-node-manager: a DaemonSet may start this agent in its place.
//!
//! The agent obeys flags that have a meaning for it. It accepts flags without a meaning, and logs them once. A flag
//! that would be dangerous, whether the agent obeys or ignores it, stops the start with a remedy.

use clap::{ArgAction, Args, Command};
use daemon::{GoFlag, ZapArgs};
use thiserror::Error;

use crate::config::bind::BindAddress;

const OWN_FLAGS: [GoFlag; 13] = [
    GoFlag::Value("controller"),
    GoFlag::Switch("deleteUnknownVolumes"),
    GoFlag::Switch("replaceMissingVolumes"),
    GoFlag::Switch("mock"),
    GoFlag::Value("metrics-bind-address"),
    GoFlag::Value("health-probe-bind-address"),
    GoFlag::Switch("leader-elect"),
    GoFlag::Switch("persistence"),
    GoFlag::Switch("cli"),
    GoFlag::Value("json"),
    GoFlag::Value("direct"),
    GoFlag::Switch("initializeAndExit"),
    GoFlag::Switch("purge"),
];

/// Variables of nnf-node-manager's DaemonSet that have no meaning for this agent.
const WITHOUT_MEANING: [&str; 9] = [
    "NNF_POD_NAMESPACE",
    "NNF_POD_IP",
    "NNF_EC_COMMAND_TIMEOUT_SECONDS",
    "NNF_MAPPER_WAIT_TIMEOUT",
    "NNF_REST_CONFIG_QPS",
    "NNF_REST_CONFIG_BURST",
    "NNF_SUPPLIED_DEVICES",
    "MOCK_FILE_SYSTEM_PATH",
    "ENVIRONMENT",
];

pub fn flags() -> Vec<GoFlag> {
    OWN_FLAGS.into_iter().chain(ZapArgs::FLAGS).collect()
}

/// Flags of nnf-node-manager.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "In the place of nnf-node-manager")]
pub struct NodeManagerArgs {
    /// Accepted with the value node only: this agent is the node controller of one rabbit
    #[arg(long, value_name = "TYPE", value_parser = node_only)]
    controller: Option<String>,
    /// Serve /healthz and /readyz at HOST:PORT or :PORT; /readyz succeeds once the agent has listed all
    /// objects of the API
    #[arg(long, value_name = "ADDRESS")]
    health_probe_bind_address: Option<BindAddress>,
    /// Serve /metrics for Prometheus at HOST:PORT or :PORT; without it the agent serves no metrics
    #[arg(long, value_name = "ADDRESS")]
    metrics_bind_address: Option<BindAddress>,
    /// Use simulated drives; needs --file-pool
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, hide_default_value = true, hide_possible_values = true)]
    mock: bool,
    /// Accepted; volumes that no object claims are reported, and never deleted
    #[arg(long = "deleteUnknownVolumes", value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, hide_default_value = true, hide_possible_values = true)]
    delete_unknown_volumes: bool,
    /// Accepted; volumes that are missing are reported, and not replaced by empty ones
    #[arg(long = "replaceMissingVolumes", value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, hide_default_value = true, hide_possible_values = true)]
    replace_missing_volumes: bool,
    #[arg(long, action = ArgAction::Set, default_value_t = false, hide = true)]
    leader_elect: bool,
    #[arg(long, hide = true)]
    persistence: Option<bool>,
    #[arg(long, action = ArgAction::Set, default_value_t = false, hide = true)]
    cli: bool,
    #[arg(long, hide = true)]
    json: Option<String>,
    #[arg(long, hide = true)]
    direct: Option<String>,
    #[arg(long = "initializeAndExit", action = ArgAction::Set, default_value_t = false, hide = true)]
    initialize_and_exit: bool,
    #[arg(long, action = ArgAction::Set, default_value_t = false, hide = true)]
    purge: bool,
}

/// A flag that is dangerous whether obeyed or ignored.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NodeManagerError {
    #[error(
        "--purge would delete every volume of the rabbit, and this agent deletes a volume only with its object: leave it out, and delete the NnfNodeBlockStorages"
    )]
    Purge,
    #[error(
        "--initializeAndExit would stop after the initialisation, and this agent needs none: leave it out to start the agent"
    )]
    InitializeAndExit,
    #[error(
        "--direct {0} chooses NVMe devices by a pattern: leave it out, and name their models with --drive-model TEXT"
    )]
    Direct(String),
    #[error(
        "--mock asks for simulated drives: name the directory of their files with --file-pool DIR"
    )]
    Mock,
    #[error(
        "--metrics-bind-address and --health-probe-bind-address are both {0}: give each a different port"
    )]
    SameAddress(BindAddress),
}

impl NodeManagerArgs {
    /// Rejects dangerous flags.
    pub fn check(&self, file_pool: bool) -> Result<(), NodeManagerError> {
        if self.purge {
            return Err(NodeManagerError::Purge);
        }
        if self.initialize_and_exit {
            return Err(NodeManagerError::InitializeAndExit);
        }
        if let Some(pattern) = self.direct.clone().filter(|pattern| !pattern.is_empty()) {
            return Err(NodeManagerError::Direct(pattern));
        }
        if self.mock && !file_pool {
            return Err(NodeManagerError::Mock);
        }
        match (self.probes(), self.metrics()) {
            (Some(probes), Some(metrics)) if probes == metrics => {
                Err(NodeManagerError::SameAddress(probes))
            }
            _ => Ok(()),
        }
    }

    /// Returns the address of the probes, if any.
    pub fn probes(&self) -> Option<BindAddress> {
        self.health_probe_bind_address.clone().filter(|address| !address.is_off())
    }

    /// Returns the address of the metrics, if any.
    pub fn metrics(&self) -> Option<BindAddress> {
        self.metrics_bind_address.clone().filter(|address| !address.is_off())
    }

    /// Returns log lines about flags and variables. `is_set` returns whether an environment variable is set.
    pub fn notes(&self, zap: &ZapArgs, is_set: impl Fn(&str) -> bool) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |given: bool, text: &str| notes.extend(given.then(|| text.to_owned()));
        note(
            self.delete_unknown_volumes,
            "--deleteUnknownVolumes: volumes that no object claims are reported in the NnfNode's health, and never deleted",
        );
        note(
            self.replace_missing_volumes,
            "--replaceMissingVolumes: volumes that are missing are reported, and not replaced by empty ones",
        );
        note(
            self.leader_elect,
            "--leader-elect: without effect, because a rabbit has only one agent",
        );
        note(
            self.cli,
            "--cli: without effect, because this agent reaches the drives without nvme-cli",
        );
        let database = self.persistence.is_some() || self.json.is_some();
        note(
            database,
            "--persistence, --json: without effect, because this agent has no database and reads the state from the drives",
        );
        let mut unused = zap.without_effect();
        unused.extend(WITHOUT_MEANING.into_iter().filter(|name| is_set(name)));
        if !unused.is_empty() {
            notes.push(format!("without effect in this agent: {}", unused.join(", ")));
        }
        notes
    }
}

/// Makes options use the variables of nnf-node-manager's DaemonSet as their defaults.
#[must_use]
pub fn with_node_manager_environment(
    mut command: Command,
    is_set: impl Fn(&str) -> bool,
) -> Command {
    for (option, ours, theirs) in [
        ("node", "WARREN_NODE", "NNF_NODE_NAME"),
        ("command_deadline", "WARREN_COMMAND_DEADLINE", "NNF_COMMAND_TIMEOUT_SECONDS"),
        ("drive_check", "WARREN_DRIVE_CHECK", "NNF_DRIVE_MONITOR_PERIOD"),
        ("link_check", "WARREN_LINK_CHECK", "NNF_FABRIC_MONITOR_PERIOD"),
        ("lustre_erase_command", "WARREN_LUSTRE_ERASE_COMMAND", "NNF_LUSTRE_FSNAME_ERASE_COMMAND"),
    ] {
        if !is_set(ours) && is_set(theirs) {
            command = command.mut_arg(option, |arg| arg.env(theirs));
        }
    }
    if is_set("KUBERNETES_SERVICE_HOST") {
        command = command.mut_arg("api", |arg| arg.default_value("in-cluster"));
    }
    command
}

fn node_only(text: &str) -> Result<String, String> {
    if text == "node" {
        Ok(text.to_owned())
    } else {
        Err("this agent is the node controller of one rabbit: use node, and leave the others to nnf-controller-manager"
            .to_owned())
    }
}

#[cfg(test)]
mod tests;

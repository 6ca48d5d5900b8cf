//! `Workflow`: the `#DW` directives of one job, the state that the workload manager wants, and the progress towards it.
//!
//! `status` is no subresource: a writer sends spec and status in one object.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::micro_time::MicroTime;
use crate::number_or_text::NumberOrText;
use crate::schema;
use crate::string_enum::string_enum;

string_enum! {
    /// A stage in a workflow's life. Stages follow each other in the order given here.
    #[derive(Default)]
    pub enum WorkflowState {
        /// The directives are checked; DirectiveBreakdowns state the storage and computes that they need.
        #[default]
        Proposal = "Proposal",
        /// The rabbits create the storage.
        Setup = "Setup",
        /// Data is copied to the storage before the job runs (`copy_in`).
        DataIn = "DataIn",
        /// The computes mount the storage.
        PreRun = "PreRun",
        /// The computes unmount the storage.
        PostRun = "PostRun",
        /// Data is copied from the storage after the job has run (`copy_out`).
        DataOut = "DataOut",
        /// The rabbits delete the storage.
        Teardown = "Teardown",
    }
}

impl WorkflowState {
    /// The states in the order in which they follow each other.
    pub const ORDER: [Self; 7] = [
        Self::Proposal,
        Self::Setup,
        Self::DataIn,
        Self::PreRun,
        Self::PostRun,
        Self::DataOut,
        Self::Teardown,
    ];

    /// Returns the state after this one; `None` after Teardown and for a state that this version does not know.
    #[must_use]
    pub fn next(&self) -> Option<&'static Self> {
        let at = Self::ORDER.iter().position(|state| state == self)?;
        Self::ORDER.get(at + 1)
    }
}

string_enum! {
    /// Progress of a workflow towards its state.
    pub enum WorkflowStatusKind {
        /// The state is reached.
        Completed = "Completed",
        /// The engine is working on the state.
        DriverWait = "DriverWait",
        /// A fault that may pass without a change of the Workflow; the engine tries again.
        TransientCondition = "TransientCondition",
        /// A fault that lasts until a person mends its cause.
        Error = "Error",
    }
}

string_enum! {
    /// Progress of one driver on one state of one directive.
    #[derive(Default)]
    pub enum DriverStatus {
        /// The driver has not begun.
        #[default]
        Pending = "Pending",
        /// The driver waits for its turn.
        Queued = "Queued",
        /// The driver is working on the state.
        Running = "Running",
        /// The driver has finished the state.
        Completed = "Completed",
        /// A fault that may pass without a change of the Workflow; the driver tries again.
        TransientCondition = "TransientCondition",
        /// A fault that lasts until a person mends its cause.
        Error = "Error",
        /// The driver waits for another driver.
        DriverWait = "DriverWait",
    }
}

/// The job's directives, and the state that the workload manager wants.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "dataworkflowservices.github.io",
    version = "v1alpha7",
    kind = "Workflow",
    namespaced,
    status = "WorkflowStatus",
    derive = "PartialEq",
    doc = "The storage of one job, driven from Proposal to Teardown",
    printcolumn(
        name = "STATE",
        type_ = "string",
        json_path = ".status.state",
        description = "Current state"
    ),
    printcolumn(
        name = "READY",
        type_ = "boolean",
        json_path = ".status.ready",
        description = "True if current state is achieved"
    ),
    printcolumn(
        name = "STATUS",
        type_ = "string",
        json_path = ".status.status",
        description = "Indicates achievement of current state"
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "JOBID",
        type_ = "string",
        json_path = ".spec.jobID",
        description = "Job ID",
        priority = 1
    ),
    printcolumn(
        name = "DESIREDSTATE",
        type_ = "string",
        json_path = ".spec.desiredState",
        description = "Desired state",
        priority = 1
    ),
    printcolumn(
        name = "DESIREDSTATECHANGE",
        type_ = "date",
        json_path = ".status.desiredStateChange",
        description = "Time of most recent desiredState change",
        priority = 1
    ),
    printcolumn(
        name = "ELAPSEDTIMELASTSTATE",
        type_ = "string",
        json_path = ".status.elapsedTimeLastState",
        description = "Duration of last state change",
        priority = 1
    ),
    printcolumn(
        name = "UID",
        type_ = "string",
        json_path = ".spec.userID",
        description = "UID",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = require_switches)]
pub struct WorkflowSpec {
    /// State that the workload manager wants the workflow to reach.
    pub desired_state: WorkflowState,
    /// Workload manager that submitted the job, such as `flux`.
    #[serde(rename = "wlmID")]
    pub wlm_id: String,
    /// Job id that the workload manager gave: a number or a text.
    #[serde(rename = "jobID")]
    pub job_id: NumberOrText,
    /// User id (UID) of the job's owner.
    #[serde(rename = "userID")]
    #[schemars(schema_with = "schema::int32")]
    pub user_id: i64,
    /// Group id (GID) of the job.
    #[serde(rename = "groupID")]
    #[schemars(schema_with = "schema::int32")]
    pub group_id: i64,
    /// Set together with desiredState Teardown: the job's data need not be saved. No step depends on it at present.
    #[serde(default)]
    pub hurry: bool,
    /// Declares the current state reached although steps of it failed or are missing. The engine resets it to false
    /// at the next state.
    #[serde(default)]
    pub force_ready: bool,
    /// The job's `#DW` lines, in the order of the job script.
    #[serde(rename = "dwDirectives")]
    pub directives: Vec<String>,
}

fn require_switches(spec: &mut schemars::Schema) {
    schema::require(spec, &["hurry", "forceReady"]);
}

/// Progress of the workflow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = schema::require_ready)]
pub struct WorkflowStatus {
    /// State that the workflow has reached or is working towards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<WorkflowState>,
    /// True once the workflow has reached `state`.
    #[serde(default)]
    #[schemars(!default)]
    pub ready: bool,
    /// Progress towards `state`: Completed, DriverWait, TransientCondition or Error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<WorkflowStatusKind>,
    /// Reason for `status` as text for people, such as the object that the workflow waits for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Environment variables for the job, such as the paths of its storage.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Progress of each directive in each state, one entry for each pair.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drivers: Vec<WorkflowDriverStatus>,
    /// References to the DirectiveBreakdowns of the directives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::references")]
    pub directive_breakdowns: Vec<ObjectReference>,
    /// Words of the `requires` arguments of all directives, for the workload manager.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    /// Secret that holds the token for the job's containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_token: Option<WorkflowTokenSecret>,
    /// Reference to the Computes object, which lists the job's compute nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub computes: Option<ObjectReference>,
    /// Time at which the workload manager asked for the current state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_state_change: Option<MicroTime>,
    /// Time at which the workflow reached the current state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_change: Option<MicroTime>,
    /// Time from `desiredStateChange` to `readyChange`, in Go's format for durations: `1.5s`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub elapsed_time_last_state: String,
}

/// Progress of one driver on one state of one directive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = require_driver)]
pub struct WorkflowDriverStatus {
    /// Name of the driver; Rabbit storage has `nnf`.
    #[serde(default, rename = "driverID")]
    #[schemars(!default)]
    pub driver_id: String,
    /// Not used by Warren; part of the DWS schema.
    #[serde(default, rename = "taskID")]
    #[schemars(!default)]
    pub task_id: String,
    /// Index of the directive in `spec.dwDirectives`, from 0.
    #[serde(default)]
    #[schemars(!default, schema_with = "schema::int")]
    pub dwd_index: i64,
    /// State that this entry is about.
    #[serde(default)]
    #[schemars(!default)]
    pub watch_state: WorkflowState,
    /// Time of the driver's last heartbeat. Not used by Warren; part of the DWS schema.
    #[serde(default, rename = "lastHB")]
    #[schemars(!default)]
    pub last_hb: i64,
    /// True once the driver has finished the state for this directive.
    #[serde(default)]
    #[schemars(!default)]
    pub completed: bool,
    /// Progress of the driver: Pending, Queued, Running, Completed, TransientCondition, Error or DriverWait.
    #[serde(default)]
    #[schemars(!default)]
    pub status: DriverStatus,
    /// Object that the driver waits for, or the fault, as text for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The fault with all of its causes, as text for administrators.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Time at which the driver finished the state for this directive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete_time: Option<MicroTime>,
}

fn require_driver(status: &mut schemars::Schema) {
    let all = ["driverID", "taskID", "dwdIndex", "watchState", "lastHB", "completed", "status"];
    schema::require(status, &all);
}

/// Reference to the Secret that holds the token for the job's containers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowTokenSecret {
    /// Name of the Secret.
    #[serde(default)]
    #[schemars(!default)]
    pub secret_name: String,
    /// Namespace of the Secret.
    #[serde(default)]
    #[schemars(!default)]
    pub secret_namespace: String,
}

#[cfg(test)]
mod tests;

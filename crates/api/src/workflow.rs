//! `Workflow`: what a job asks for in `#DW` directives, the state a workload manager wants it in, and how far that is.
//!
//! Its status is no subresource: whoever writes the object writes both.

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
    /// A stage in a workflow's life. They follow each other in this order.
    #[derive(Default)]
    pub enum WorkflowState {
        /// The directives are checked, and DirectiveBreakdowns say what they need.
        #[default]
        Proposal = "Proposal",
        /// The storage is made.
        Setup = "Setup",
        /// Data is copied in.
        DataIn = "DataIn",
        /// The storage is mounted on the computes.
        PreRun = "PreRun",
        /// It is unmounted there.
        PostRun = "PostRun",
        /// Data is copied out.
        DataOut = "DataOut",
        /// The storage is removed.
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

    /// The state after this one; `None` for the last and for one this version does not know.
    #[must_use]
    pub fn next(&self) -> Option<&'static Self> {
        let at = Self::ORDER.iter().position(|state| state == self)?;
        Self::ORDER.get(at + 1)
    }
}

string_enum! {
    /// How a state is coming along.
    pub enum WorkflowStatusKind {
        /// It is reached.
        Completed = "Completed",
        /// It is being worked on.
        DriverWait = "DriverWait",
        /// Something is wrong that may pass.
        TransientCondition = "TransientCondition",
        /// Something is wrong that does not pass by itself.
        Error = "Error",
    }
}

string_enum! {
    /// How a driver's share of a state is coming along.
    #[derive(Default)]
    pub enum DriverStatus {
        /// Not begun.
        #[default]
        Pending = "Pending",
        /// Waiting for its turn.
        Queued = "Queued",
        /// Being worked on.
        Running = "Running",
        /// Done.
        Completed = "Completed",
        /// Something is wrong that may pass.
        TransientCondition = "TransientCondition",
        /// Something is wrong that does not pass by itself.
        Error = "Error",
        /// Waiting for another driver.
        DriverWait = "DriverWait",
    }
}

/// What the job asks for, and the state it should be in.
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
    /// The state to reach.
    pub desired_state: WorkflowState,
    /// Which workload manager the job is of.
    #[serde(rename = "wlmID")]
    pub wlm_id: String,
    /// The workload manager's job: a number or a text.
    #[serde(rename = "jobID")]
    pub job_id: NumberOrText,
    /// Who owns the job.
    #[serde(rename = "userID")]
    #[schemars(schema_with = "schema::int32")]
    pub user_id: i64,
    /// The job's group.
    #[serde(rename = "groupID")]
    #[schemars(schema_with = "schema::int32")]
    pub group_id: i64,
    /// With Teardown: do not save data, be quick.
    #[serde(default)]
    pub hurry: bool,
    /// Takes the state for reached, whatever is missing; set back at the next state.
    #[serde(default)]
    pub force_ready: bool,
    /// The job's `#DW` lines.
    #[serde(rename = "dwDirectives")]
    pub directives: Vec<String>,
}

fn require_switches(spec: &mut schemars::Schema) {
    schema::require(spec, &["hurry", "forceReady"]);
}

/// How far the workflow is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = schema::require_ready)]
pub struct WorkflowStatus {
    /// The state that is being reached, or is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<WorkflowState>,
    /// Whether it is reached.
    #[serde(default)]
    #[schemars(!default)]
    pub ready: bool,
    /// How it is coming along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<WorkflowStatusKind>,
    /// More about it, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Variables for the job's environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Each directive's share of each state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drivers: Vec<WorkflowDriverStatus>,
    /// The DirectiveBreakdowns of the directives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::references")]
    pub directive_breakdowns: Vec<ObjectReference>,
    /// Words that directives asked for with `requires`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    /// The Secret with the token for the job's containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_token: Option<WorkflowTokenSecret>,
    /// The Computes of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub computes: Option<ObjectReference>,
    /// When the state was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_state_change: Option<MicroTime>,
    /// When it was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_change: Option<MicroTime>,
    /// The time between the two, as Go writes durations: `1.5s`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub elapsed_time_last_state: String,
}

/// One driver's share of one state for one directive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = require_driver)]
pub struct WorkflowDriverStatus {
    /// Who does it: `nnf`.
    #[serde(default, rename = "driverID")]
    #[schemars(!default)]
    pub driver_id: String,
    /// Unused.
    #[serde(default, rename = "taskID")]
    #[schemars(!default)]
    pub task_id: String,
    /// Which directive, counted from 0.
    #[serde(default)]
    #[schemars(!default, schema_with = "schema::int")]
    pub dwd_index: i64,
    /// The state.
    #[serde(default)]
    #[schemars(!default)]
    pub watch_state: WorkflowState,
    /// Unused.
    #[serde(default, rename = "lastHB")]
    #[schemars(!default)]
    pub last_hb: i64,
    /// Whether it is done.
    #[serde(default)]
    #[schemars(!default)]
    pub completed: bool,
    /// How it is coming along.
    #[serde(default)]
    #[schemars(!default)]
    pub status: DriverStatus,
    /// What it waits for or what went wrong, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What went wrong, with all causes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// When it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete_time: Option<MicroTime>,
}

fn require_driver(status: &mut schemars::Schema) {
    let all = ["driverID", "taskID", "dwdIndex", "watchState", "lastHB", "completed", "status"];
    schema::require(status, &all);
}

/// Where the token of the job's containers is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowTokenSecret {
    /// The Secret's name.
    #[serde(default)]
    #[schemars(!default)]
    pub secret_name: String,
    /// The Secret's namespace.
    #[serde(default)]
    #[schemars(!default)]
    pub secret_namespace: String,
}

#[cfg(test)]
mod tests;

//! `ContainerRun`: the containers of one directive, and which coordinator works on them. Warren's own kind.
//!
//! Several coordinators may work on runs; one at a time claims a run. Its status carries the claim, and the stamp of whoever wrote
//! it last. The rules below are the API server's: it refuses a write of a coordinator that lost its claim and does not know it
//! yet. `containers::claim::rules` has the same rules for an API that evaluates no CEL.

#![expect(unreachable_pub, reason = "KubeSchema puts a copy of the type into a function")]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::string_enum::string_enum;

/// R6: which phase may follow which.
const PHASES: &str = "self.phase == oldSelf.phase || \
    (oldSelf.phase == 'Queued' && self.phase in ['Claimed', 'Cancelled']) || \
    (oldSelf.phase == 'Claimed' && self.phase in ['Queued', 'Starting', 'Suspended', 'Failed', 'Cancelled']) || \
    (oldSelf.phase == 'Starting' && self.phase in ['Running', 'Stopping', 'Suspended', 'Failed', 'Cancelled']) || \
    (oldSelf.phase == 'Running' && self.phase in ['Stopping', 'Suspended', 'Succeeded', 'Failed', 'Cancelled']) || \
    (oldSelf.phase == 'Stopping' && self.phase in ['Suspended', 'Succeeded', 'Failed', 'Cancelled']) || \
    (oldSelf.phase == 'Suspended' && self.phase in ['Claimed', 'Cancelled'])";

/// R5: what is not a change of the run itself, such as one of labels, has the stamp that is stored.
const STAMPED: &str = "self.writer.seq > oldSelf.writer.seq || \
    (self.writer == oldSelf.writer && self.claim == oldSelf.claim && \
    self.phase == oldSelf.phase && self.attempt == oldSelf.attempt)";

string_enum! {
    /// How far a run is.
    pub enum ContainerRunPhase {
        /// Nobody works on it.
        Queued = "Queued",
        /// A coordinator has its rabbits prepared.
        Claimed = "Claimed",
        /// Its containers are made, and not all of them are ready.
        Starting = "Starting",
        /// All of its containers were ready.
        Running = "Running",
        /// Its containers are being ended.
        Stopping = "Stopping",
        /// It waits until it may go on; nothing of it runs.
        Suspended = "Suspended",
        /// It ended well.
        Succeeded = "Succeeded",
        /// It ended, and not well.
        Failed = "Failed",
        /// It was not wanted any more.
        Cancelled = "Cancelled",
    }
}

impl ContainerRunPhase {
    /// Whether nothing follows.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// What is to run.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "warren.nnf.cray.hpe.com",
    version = "v1alpha1",
    kind = "ContainerRun",
    namespaced,
    status = "ContainerRunStatus",
    derive = "PartialEq",
    doc = "The containers of one directive, and which coordinator works on them",
    printcolumn(name = "PHASE", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "ATTEMPT", type_ = "integer", json_path = ".status.attempt"),
    printcolumn(name = "EPOCH", type_ = "integer", json_path = ".status.claim.epoch", priority = 1),
    printcolumn(name = "HOLDER", type_ = "string", json_path = ".status.claim.holder", priority = 1),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("!has(oldSelf.status) || has(self.status)").message("R0 status cannot be removed"),
    validation = Rule::new("has(oldSelf.status) || !has(self.status) || (self.status.phase in ['Claimed', 'Cancelled'] && self.status.claim.epoch == 1 && self.status.attempt <= 1)")
        .message("R9 first status is a claim with epoch 1")
)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRunSpec {
    /// Names of the rabbits that it runs on, in the run's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rabbits: Vec<String>,
    /// 0 once the run is not wanted any more.
    #[serde(default = "one")]
    pub priority: i64,
    /// Whether it is to wait, with nothing of it running.
    #[serde(default)]
    pub suspend: bool,
    /// How often it is claimed without its containers being made, before it fails.
    #[serde(default = "ten")]
    #[schemars(range(min = 1))]
    pub max_claim_attempts: i32,
}

fn one() -> i64 {
    1
}

fn ten() -> i32 {
    10
}

/// Who works on a run, and how far it is. Without one a run is queued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = Rule::new("self.claim.epoch >= oldSelf.claim.epoch").message("R1 epoch never decreases"),
    validation = Rule::new("self.claim.holder == oldSelf.claim.holder || self.claim.epoch > oldSelf.claim.epoch")
        .message("R2 a new holder needs a higher epoch"),
    validation = Rule::new("!(self.phase == 'Claimed' && oldSelf.phase in ['Queued', 'Suspended']) || self.claim.epoch > oldSelf.claim.epoch")
        .message("R3 every claim needs a higher epoch, even by the same holder"),
    validation = Rule::new("self.writer.holder == self.claim.holder && self.writer.epoch == self.claim.epoch")
        .message("R4 writer stamp must equal the claim"),
    validation = Rule::new(STAMPED).message("R5 a change needs a higher writer.seq"),
    validation = Rule::new(PHASES).message("R6 phase transition not allowed"),
    validation = Rule::new("!(oldSelf.phase in ['Succeeded', 'Failed', 'Cancelled']) || (self.phase == oldSelf.phase && self.attempt == oldSelf.attempt)")
        .message("R7 final result is fixed; only claim, writer and conditions may change"),
    validation = Rule::new("self.attempt == (self.phase == 'Claimed' && oldSelf.phase in ['Queued', 'Suspended'] ? oldSelf.attempt + 1 : oldSelf.attempt)")
        .message("R8 attempt rises by one on each claim of a queued or suspended run and at no other time")
)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRunStatus {
    /// Who works on it.
    pub claim: ContainerRunClaim,
    /// Who wrote this status.
    pub writer: ContainerRunWriter,
    /// How far it is.
    #[schemars(extend("maxLength" = 16))]
    pub phase: ContainerRunPhase,
    /// How often it was claimed while nothing of it ran: which containers are its own.
    #[schemars(range(min = 0))]
    pub attempt: i32,
    /// Why it failed or what it waits for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 4096))]
    pub message: String,
}

/// Who works on a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRunClaim {
    /// A process of a coordinator.
    #[schemars(length(min = 1, max = 128))]
    pub holder: String,
    /// Number of the claim; each has a higher one.
    #[schemars(range(min = 1))]
    pub epoch: i64,
}

/// Who wrote a status: its claim when it wrote, and a number that each write raises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRunWriter {
    /// A process of a coordinator.
    #[schemars(length(min = 1, max = 128))]
    pub holder: String,
    /// Number of its claim.
    #[schemars(range(min = 1))]
    pub epoch: i64,
    /// Number of the write.
    #[schemars(range(min = 1))]
    pub seq: i64,
}

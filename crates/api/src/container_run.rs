//! `ContainerRun`: the containers of one directive on all of its rabbits, and the coordinator that works on them. Only
//! Warren has this kind.
//!
//! Several coordinators may work on runs; the coordinator that works on a run holds the run's claim, which only one
//! coordinator can have at a time. The status carries the claim and the stamp of its last writer. The API server
//! enforces the rules below: it refuses the write of a coordinator that has lost its claim and has not noticed it yet.
//! `containers::claim::rules` has the same rules for an API that evaluates no CEL.

#![expect(unreachable_pub, reason = "KubeSchema puts a copy of the type into a function")]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::string_enum::string_enum;

/// Rule R6: the phases that may follow each phase.
const PHASES: &str = "self.phase == oldSelf.phase || \
    (oldSelf.phase == 'Queued' && self.phase in ['Claimed', 'Cancelled']) || \
    (oldSelf.phase == 'Claimed' && self.phase in ['Queued', 'Starting', 'Suspended', 'Failed', 'Cancelled']) || \
    (oldSelf.phase == 'Starting' && self.phase in ['Running', 'Stopping', 'Suspended', 'Failed', 'Cancelled']) || \
    (oldSelf.phase == 'Running' && self.phase in ['Stopping', 'Suspended', 'Succeeded', 'Failed', 'Cancelled']) || \
    (oldSelf.phase == 'Stopping' && self.phase in ['Suspended', 'Succeeded', 'Failed', 'Cancelled']) || \
    (oldSelf.phase == 'Suspended' && self.phase in ['Claimed', 'Cancelled'])";

/// Rule R5: a write has a newer stamp, or it keeps the stored stamp and changes neither claim, phase nor attempt. A
/// write that changes only labels, for example, keeps the stamp.
const STAMPED: &str = "self.writer.seq > oldSelf.writer.seq || \
    (self.writer == oldSelf.writer && self.claim == oldSelf.claim && \
    self.phase == oldSelf.phase && self.attempt == oldSelf.attempt)";

string_enum! {
    /// Progress of a run.
    pub enum ContainerRunPhase {
        /// No coordinator works on the run.
        Queued = "Queued",
        /// A coordinator has claimed the run, and the run's rabbits are being prepared.
        Claimed = "Claimed",
        /// The containers are created, and not all of them are ready.
        Starting = "Starting",
        /// All containers are ready, or were ready before some of them ended.
        Running = "Running",
        /// The containers are being stopped.
        Stopping = "Stopping",
        /// The run waits until it is resumed; none of its containers runs.
        Suspended = "Suspended",
        /// All containers ended without error.
        Succeeded = "Succeeded",
        /// The run ended with an error.
        Failed = "Failed",
        /// The run was cancelled before it ended.
        Cancelled = "Cancelled",
    }
}

impl ContainerRunPhase {
    /// Returns whether no other phase can follow.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// Rabbits of the run, and requests to its coordinator.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "warren.nnf.cray.hpe.com",
    version = "v1alpha1",
    kind = "ContainerRun",
    namespaced,
    status = "ContainerRunStatus",
    derive = "PartialEq",
    doc = "The containers of one directive, and the coordinator that works on them",
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
    /// Names of the run's rabbits, in the run's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rabbits: Vec<String>,
    /// Priority of the run: 1 by default; 0 cancels the run.
    #[serde(default = "default_priority")]
    pub priority: i64,
    /// True to stop the containers and to keep the run waiting.
    #[serde(default)]
    pub suspend: bool,
    /// Number of claims after which the run fails if no containers were created.
    #[serde(default = "default_max_claim_attempts")]
    #[schemars(range(min = 1))]
    pub max_claim_attempts: i32,
}

fn default_priority() -> i64 {
    1
}

fn default_max_claim_attempts() -> i32 {
    10
}

/// Progress of a run, and the coordinator that works on it. A run without status is queued.
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
    /// Claim of the coordinator that works on the run.
    pub claim: ContainerRunClaim,
    /// Stamp of the coordinator that wrote this status.
    pub writer: ContainerRunWriter,
    /// Progress of the run.
    #[schemars(extend("maxLength" = 16))]
    pub phase: ContainerRunPhase,
    /// Number of times that the run was claimed while it was queued or suspended. The containers have this number as a
    /// label, which distinguishes them from containers of earlier attempts.
    #[schemars(range(min = 0))]
    pub attempt: i32,
    /// Reason of the failure, or the object that the run waits for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 4096))]
    pub message: String,
}

/// Claim of a coordinator on a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRunClaim {
    /// Identity of the coordinator process that holds the claim.
    #[schemars(length(min = 1, max = 128))]
    pub holder: String,
    /// Number of the claim; each new claim has a higher one.
    #[schemars(range(min = 1))]
    pub epoch: i64,
}

/// Stamp of a status: the claim of its writer, and a number that rises with each write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRunWriter {
    /// Identity of the coordinator process that wrote the status.
    #[schemars(length(min = 1, max = 128))]
    pub holder: String,
    /// Number of the writer's claim.
    #[schemars(range(min = 1))]
    pub epoch: i64,
    /// Number of the write, higher than that of the write before.
    #[schemars(range(min = 1))]
    pub seq: i64,
}

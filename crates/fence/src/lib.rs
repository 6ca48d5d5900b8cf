//! Fences computes that share a GFS2 with this rabbit: takes a failed compute's access to the GFS2 away. Pacemaker's
//! agent puts a request file into one directory, and finds the answer under the same name in another directory.
//!
//! # Path of data
//! ```text
//! inotify ─► spool.rs: requests, answers ─► barrier.rs: gate.rs attaches nothing to the node any more
//!                                              └► detach.rs: detach, read again, proof.rs ─► answer.rs: answer, DLM, delete request
//! ```
//! The crate knows neither the passes nor the cache of the agent: passes over a GFS2 use a [`Gate`] as their host, and
//! [`Tools::changed`] notifies the agent when the fenced nodes changed. Passes also use [`chassis`]: which compute is in
//! which slot.
//!
//! # Guarantees
//! * The agent answers with success only if it has read every drive after the detaching, and every drive shows that the
//!   node reaches no namespace that is, or may be, of a GFS2. If the agent could not read a drive or an object, the
//!   fence is not proved, and the answer is no success.
//! * The agent acknowledges the fence to DLM only once it has this proof and the answer is on disk. DLM then gives the
//!   node's locks to other nodes, so the fenced node must not write any more or get access again.
//! * After the agent has seen a request, no pass attaches a GFS2 namespace to the node, until the agent refuses the
//!   request or an administrator deletes the answer. The same holds after a crash or a reboot: the agent reads the
//!   files before the first pass begins.
//! * A crash at any point does no harm: the agent writes each answer whole and deletes each request last, and after a
//!   restart it acknowledges to DLM again each fence that has both an answer of success and a request.
//!
//! # Assumptions
//! Both directories keep their files over a reboot, and only root writes there.

mod answer;
mod args;
mod barrier;
pub mod chassis;
mod corosync;
mod detach;
mod fenced_namespaces;
mod gate;
mod notify;
mod proof;
mod request;
mod response;
#[cfg(test)]
mod samples;
mod serve;
mod spool;

pub use args::{FenceArgs, FenceConfig, FenceConfigError};
pub use barrier::{Fences, FencesUnknown};
pub use gate::Gate;
pub use serve::{Fencer, Tools, read_fences};

use api::names::label;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Returns whether a NnfNodeBlockStorage has a GFS2: several nodes write to a GFS2 at once, so a node that falls
/// silent must be fenced.
pub fn is_shared(metadata: &ObjectMeta) -> bool {
    let Some(labels) = &metadata.labels else { return false };
    [label::ALLOCATION_SET, label::FILE_SYSTEM]
        .iter()
        .any(|key| labels.get(*key).is_some_and(|value| value == "gfs2"))
}

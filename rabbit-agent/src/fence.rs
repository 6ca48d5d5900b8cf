//! Fences computes that share a GFS2 with this rabbit. Pacemaker's agent puts a request file into one directory, and
//! finds the answer under the same name in another.
//!
//! # Path of data
//! ```text
//! inotify ─► spool.rs: requests, answers ─► barrier.rs: gate.rs attaches nothing to the node any more
//!                                              └► detach.rs: detach, read again, proof.rs ─► answer.rs: answer, DLM, delete request
//! ```
//! # Guarantees
//! * The agent answers with success only when it read every drive after the detaching, and every drive shows that the
//!   node reaches no namespace that is, or may be, of a GFS2. Anything that it could not read leaves the fence
//!   unproved, and that is no success.
//! * The agent acknowledges the fence to DLM only after that, and after the answer is on disk. DLM then gives the
//!   node's locks to others, so the node must not write any more or get access again.
//! * From the moment the agent sees a request until it refuses it, or until an administrator deletes the answer, no
//!   pass attaches a GFS2 namespace to the node. That holds after a crash or a reboot too: the agent reads the files
//!   before the first pass begins.
//! * After a crash at any point the agent starts again: it writes answers whole, deletes requests last, and
//!   acknowledges to DLM again what is answered and still requested.
//!
//! # Assumptions
//! Both directories keep their files over a reboot, and only root writes there.

mod answer;
pub mod args;
pub mod barrier;
mod claims;
mod corosync;
mod detach;
mod gate;
mod notify;
mod proof;
mod request;
mod response;
mod serve;
pub mod servers;
mod spool;

pub use args::{FenceArgs, FenceConfig, FenceConfigError};
pub use barrier::{Fences, FencesUnknown};
pub(crate) use gate::Gate;
pub(crate) use serve::{Fencer, Tools};

use api::names::label;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Returns whether a NnfNodeBlockStorage has a GFS2: several nodes write to it at once, so a silent
/// node must be fenced.
pub fn is_shared(metadata: &ObjectMeta) -> bool {
    let labels = metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(label::ALLOCATION_SET)).is_some_and(|set| set == "gfs2")
}

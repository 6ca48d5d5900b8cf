//! Fencing of computes that share a GFS2 with this rabbit, by files: Pacemaker's agent puts a request into one directory, and
//! finds the answer under the same name in another.
//!
//! # Path of data
//! ```text
//! inotify ─► spool.rs: requests, markers ─► barrier.rs: gate.rs attaches nothing to the node any more
//!                                              └► cut.rs: detach, look again, doubt.rs ─► answer, DLM, request away
//! ```
//! # Guarantees
//! * Success is answered only when every drive was looked at after the detaching and shows that the node reaches no namespace
//!   of a GFS2, and none of which it cannot be told whose it is. What could not be read is a doubt, and a doubt is no success.
//! * DLM is told only after that, and after the answer is on disk: it would let others have the locks of a node that still
//!   writes, or that is let in again.
//! * From the moment a request is seen until it is refused, or until somebody deletes the answer, no pass gives the node a
//!   GFS2 namespace, also after a crash or a reboot: the files are read before the first pass begins.
//! * A crash at any point is answered by starting again: requests are deleted last, what is answered and still asked for is told
//!   DLM again, and answers are written whole.
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

/// Whether a NnfNodeBlockStorage carries a GFS2: then several nodes write to it at once, and one that is gone must be fenced.
#[must_use]
pub fn is_shared(metadata: &ObjectMeta) -> bool {
    let labels = metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(label::ALLOCATION_SET)).is_some_and(|set| set == "gfs2")
}

//! The verbs for scripts: `mount`, `unmount` and `wait` for the ClientMounts of one job on this node.
//!
//! ```text
//! coordinator ─ Question ─► JobState ┐
//! agent ────────── View ──► Viewed ──┴─ judge (pure) ─► wait ─► JobNews
//! ```
//! Only ClientMounts say what is to be mounted: a verb waits and reports. An administrator may ask for one exception: what the
//! agent does with a mount that is still in use when an `unmount` has no more time (`timeout`).

use std::time::Instant;

mod judge;
mod lines;
mod timeout;
mod wait;

pub use judge::{Evidence, Goal, Judged, judge};
pub use lines::lines;
pub use wait::{Ask, Shared, wait};

/// What a verb may request of the agent's main loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Begin a pass on these objects now, by uid.
    Look(Vec<String>),
    /// The same, and detach (MNT_DETACH) what cannot be unmounted.
    Detach {
        /// The objects, by uid.
        uids: Vec<String>,
        /// A pass that begins later detaches nothing: the script was answered by then that the mount stays.
        until: Instant,
    },
}

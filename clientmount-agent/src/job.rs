//! The verbs for scripts: `mount`, `unmount` and `wait` for the ClientMounts of one job on this node.
//!
//! ```text
//! coordinator ─ Question ─► JobState ┐
//! agent ────────── View ──► Viewed ──┴─ judge (pure) ─► wait ─► JobNews
//! ```
//! The ClientMounts alone say what is to be mounted. A verb changes none of that: it waits, and reports. One exception an
//! administrator asks for: what becomes of a mount that is still in use when an `unmount` has no more time (`timeout`).

use std::time::Instant;

mod judge;
mod lines;
mod timeout;
mod wait;

pub use judge::{Goal, Judged, Scene, judge};
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
        /// A pass that begins later detaches nothing: whoever requested it has had the answer that the mount stays.
        until: Instant,
    },
}

//! The verbs for scripts: `mount`, `unmount` and `wait` for the ClientMounts of one job on this node.
//!
//! ```text
//! coordinator ─ Question ─► JobState ┐
//! agent ────────── View ──► Viewed ──┴─ judge (pure) ─► wait ─► JobNews
//! ```
//! Only ClientMounts say what is to be mounted: a verb only waits and reports. An administrator may ask for one exception: what
//! the agent does with a mount that is still in use when an `unmount` has no more time (`timeout`).

use std::time::Instant;

mod judge;
mod lines;
mod timeout;
mod wait;

pub use judge::{Evidence, Goal, Judgement, judge};
pub use lines::lines;
pub use wait::{Call, Shared, wait};

/// A request of a verb to the agent's main loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Begins a pass on these objects now, by uid.
    StartPass(Vec<String>),
    /// Begins a pass on these objects now, and detaches (MNT_DETACH) what cannot be unmounted.
    Detach {
        /// The objects, by uid.
        uids: Vec<String>,
        /// A pass that begins later detaches nothing: the script has had its answer by then.
        until: Instant,
    },
}

//! The verbs for scripts: `mount`, `unmount` and `wait` for the ClientMounts of one job on this node.
//!
//! ```text
//! coordinator: what the API stores about the job (JobState) ┐
//! agent: what it did with each ClientMount (Viewed) ────────┴─► judge (pure) ─► wait ─► script (JobNews)
//! ```
//! While a script waits, the agent keeps a question about the job open. The coordinator (or the module `direct`, if
//! there is no coordinator) answers the question with a new `JobState` after each change. A `JobNews` tells the script
//! the reason for the wait, or the outcome. Only ClientMounts decide what is mounted: a verb waits and reports. An
//! administrator may configure one exception: an action on mounts that are still in use at the deadline of an `unmount`
//! (`timeout`).

use std::time::Instant;

mod judge;
mod lines;
mod timeout;
mod wait;

pub use judge::{Evidence, Goal, Judgement, judge};
pub use lines::lines;
pub use wait::{Call, Shared, wait};

/// A request of a verb to the agent's main loop. A pass is one attempt to bring an object's mounts
/// into the desired state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Begins a pass on these objects now, by uid.
    StartPass(Vec<String>),
    /// Begins a pass on these objects now, and detaches (MNT_DETACH) the mounts that cannot be unmounted.
    Detach {
        /// The objects, by uid.
        uids: Vec<String>,
        /// A pass that begins later than this detaches nothing, because the script has had its answer by then.
        until: Instant,
    },
}

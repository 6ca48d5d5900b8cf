//! How this rabbit is: what was read of its drives, links, file systems and memory, judged, and told where it is asked for.
//!
//! ```text
//! uevents ─► board: marked ─► pass on the NnfNode ─► facts ─► judge (pure) ─► NnfNode.status
//!                 ▲                                             │        └──► Health, for the coordinator
//!                 └────────── look again at ────────────────────┘
//! ```
//! # Guarantees
//! * An event proves nothing but that something changed: how it is now is read anew, always all of it.
//! * A condition holds from the look on that finds it, and goes when looks found it gone for a while, so that what flaps does
//!   not flap in the status. Nobody has to clear anything.
//! * What could not be looked at is neither well nor bad: what was known of it stays.
//! * Links to computes wait for no drive.
//!
//! # Caveats
//! At rest there is one timer, `--drive-check`: drives do not announce what their SMART logs say (the kernel asks them not
//! to), and an XFS that shuts itself down announces nothing either. Where there are PCIe switches there is a second,
//! `--link-check`: they announce no link.

pub mod args;
mod condition;
mod judge;
mod report;
mod rules;
pub mod state;
pub mod switches;
pub mod uevents;

pub use condition::{Condition, Kind, Severity, Subject};
pub use judge::{Judgement, judge};
pub use report::{health, of_compute, of_drive, of_rabbit, overall};
pub use rules::{DrivesSeen, Seen};
/// The name that `run` still uses.
#[doc(hidden)]
pub use state::HealthState as Board;
pub use state::HealthState;

//! Health of the rabbit: the agent reads facts of its drives, links, file systems and memory, judges them, and reports
//! the result.
//!
//! ```text
//! uevents ─► HealthState ──► pass over the NnfNode ─► facts ─► judge (pure) ─► NnfNode.status
//!                 ▲                                               │       └──► Health, for the coordinator
//!                 └────────────────── next check ─────────────────┘
//! ```
//! # Guarantees
//! * An event proves only that something changed. The agent then reads the current state, always all of it.
//! * A condition begins with the health check that finds it. It ends when checks have not found it for a while, so that
//!   flapping does not show in the status. It needs no clearing by hand.
//! * If a source cannot be read, its conditions stay as they were.
//! * The status of links to computes waits for no drive.
//!
//! # Caveats
//! An idle agent has one timer, `--drive-check`: drives do not announce changes of their SMART logs (the kernel
//! disables that), nor does an XFS that shuts itself down. Where there are PCIe switches there is a second,
//! `--link-check`: they do not announce links.

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
pub use state::HealthState;

//! Health of the rabbit: the agent reads facts about the rabbit's drives, links, file systems and memory, judges the
//! facts, and reports the result.
//!
//! ```text
//! uevents ─► HealthState ──► pass over the NnfNode ─► facts ─► judge (pure) ─► NnfNode.status
//!                 ▲                                               │       └──► Health, for the coordinator
//!                 └────────────────── next check ─────────────────┘
//! ```
//! # Guarantees
//! * An event proves only that something changed. The agent then reads the present state, always all of it.
//! * A condition (a health problem while it lasts) begins with the health check that finds it. It ends when checks have
//!   not found it for a while, so that a flapping link does not show in the status. An administrator need not clear a
//!   condition.
//! * If a source of facts cannot be read, the conditions that depend on it stay.
//! * Changes of links to computes are reported at once, even while the drives are still being read.
//!
//! # Caveats
//! An idle agent has one timer, `--drive-check`: drives do not announce changes of their SMART logs (the kernel
//! disables these announcements), and an XFS does not announce that it shuts itself down. On a rabbit with PCIe
//! switches the agent has a second timer, `--link-check`: the switches do not announce changes of links.

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
pub use rules::{CheckFacts, DrivesRead};
pub use state::HealthState;

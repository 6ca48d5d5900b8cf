//! The parts that the agents of computes and rabbits share: ClientMounts as mounts of a node, failures as users read
//! them, and the link to a coordinator.
//!
//! # Path of data
//! ```text
//! ClientMount ─ desired ─► units ─ reconcile ─► outcome ─ report ─► status
//! coordinator ─ link ─► received ─► agent ─► report ─ outbox ─► coordinator
//! ```
//! # Guarantees
//! * Every mistake in an object is found before anything is touched, and reported with the field, the value and the remedy.
//! * An object that is to be mounted is mounted whole or, when part of it is invalid, not at all.
//! * Every mount's own failure is reported; one failing mount does not stop the others.
//!
//! # Assumptions
//! The agent runs as root in the mount namespace that jobs see. It receives the
//! objects of this node only, and trusts nothing else in them.

pub mod clean_up;
pub mod coordinator;
pub mod desired;
pub mod dropped;
pub mod error;
pub mod hello;
pub mod holders;
pub mod link;
pub mod node;
pub mod outbox;
pub mod questions;
pub mod received;
pub mod reconcile;
pub mod records;
pub mod report;
pub mod site;
pub mod targets;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod volumes;

pub use desired::desired;

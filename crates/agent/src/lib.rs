//! The parts that the agents of computes and rabbits share: the conversion of ClientMounts to mounts of the node, the
//! texts of failures, and the link to a coordinator.
//!
//! # Path of data
//! ```text
//! ClientMount ─ desired ─► units ─ reconcile ─► outcome ─ report ─► status
//! coordinator ─ link ─► received ─► agent ─► report ─ outbox ─► coordinator
//! ```
//! # Guarantees
//! * The agent finds every mistake in an object before it changes the node, and reports the field, the value and the
//!   remedy.
//! * If one mount of an object is invalid, the agent makes none of the object's mounts.
//! * The agent reports the failure of each mount; a mount that fails does not stop the others.
//!
//! # Assumptions
//! The agent runs as root in the mount namespace that jobs see. It receives only the objects of this node. It trusts no
//! field of an object, and checks each field that it uses.

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

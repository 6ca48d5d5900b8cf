//! A rabbit: carves namespaces out of its drives, makes file systems on them, and mounts them as trees.
//!
//! # Path of data
//! ```text
//! watch ─► cache ─► queue ─► pass: desired.rs ─► storage::Desired ─ converge ─► Observed ─ report.rs ─► status
//! ```
//! One folder per kind: `block_storage` (NnfNodeBlockStorage), `node_storage` (NnfNodeStorage), `client_mount`
//! (ClientMount), `node` (NnfNode), and `lustre_mgt` (NnfLustreMGT), which is counted and not converged. `desired`, `plan`
//! and `report` are pure, `reconcile` joins them.
//!
//! # Guarantees
//! * Only objects in the namespace of the rabbit's own name are acted on.
//! * Nothing is concluded from the absence of an object before every kind was listed to its end.
//! * A write that changes nothing is not sent, and the agent's own writes do not wake it.
//! * Namespaces that no object claims are told of and never deleted.
//!
//! # Assumptions
//! One agent per rabbit, as root, in the host's mount namespace.

pub mod agent;
pub mod bind;
pub mod block_storage;
pub mod cache;
pub mod chassis;
pub mod client_mount;
pub mod config;
pub mod failure;
pub mod fence;
pub mod health;
pub mod lustre_mgt;
pub mod node;
pub mod node_manager;
pub mod node_storage;
pub mod pass;
pub mod probes;
pub mod run;
#[cfg(test)]
mod samples;
pub mod status;
pub mod watch;

/// The name that `run` and `probes` still use.
#[doc(hidden)]
pub use status as signs;

pub use run::{RunError, run, work};

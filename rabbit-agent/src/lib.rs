//! The agent of a rabbit: it creates namespaces on the rabbit's drives, makes file systems on them, and mounts them.
//!
//! # Path of data
//! ```text
//! watch ─► cache ─► queue ─► pass: desired.rs ─► storage::Desired ─ converge ─► Observed ─ report.rs ─► status
//! ```
//! `core` has the main loop, the cache, and the input and result that all passes share. `kinds` has one folder per kind:
//! `block_storage` (NnfNodeBlockStorage), `node_storage` (NnfNodeStorage), `client_mount` (ClientMount), `node`
//! (NnfNode), `container` (NodeContainers), which converges podman's pods, `movement` (NnfDataMovement), which runs
//! `datamover`, and `lustre_mgt` (NnfLustreMGT), which allocates names and converges nothing on the node. `desired`,
//! `plan` and `report` do no I/O; `reconcile` joins them.
//!
//! `preview` plans for objects without a pass, for `warren plan` and `--dry-run`. Crate `fence` fences computes beside the
//! passes.
//!
//! *Central controllers* are the programs that write the objects' specs: Warren's workflow engine, or the Go
//! controllers, which Warren replaces.
//!
//! # Guarantees
//! * The agent acts only on objects in the Kubernetes namespace named after the rabbit.
//! * Until every kind was listed completely, the agent draws no conclusion from the absence of an object.
//! * The agent sends no write that changes nothing, and its own writes do not wake it.
//! * The agent reports namespaces that belong to no object, and never deletes them.
//!
//! # Containers and job packages
//! * Fields of a NodeContainers become arguments of podman, never a line for a shell (`kinds/container/arguments.rs`).
//! * The agent looks only at pods whose labels have the uid of an object in its cache, and removes these pods only with
//!   the object.
//! * The agent runs as root. Of the files that a user names, it reads only those that every user may read.
//!
//! # Assumptions
//! One agent per rabbit, as root, in the host's mount namespace.

pub mod config;
pub mod core;
pub mod health;
pub mod kinds;
pub mod preview;
#[cfg(test)]
mod samples;

pub use self::core::run::{RunError, run, work};

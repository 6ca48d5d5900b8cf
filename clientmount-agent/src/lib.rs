//! Mounts what ClientMounts ask for, on computes; rabbits use the same parts for theirs.
//!
//! # Path of data
//! ```text
//! coordinator ─ link ─────► agent ─ desired ─► units ─ reconcile ─► outcome ─ report ─► status ─ outbox ─► coordinator
//! API ───────── direct ───►                                                                             └─► API
//! ```
//! # Guarantees
//! * Every mistake in an object is found before anything is touched, and told with the field, the value and the remedy.
//! * An object that is to be mounted is mounted whole or, when part of it is invalid, not at all.
//! * Every mount's own failure is told; one failing mount does not stop the others.
//! * Nothing is unmounted because the coordinator or the API is away, and nothing of ours stays mounted that no object wants.
//! * At rest there is one idle connection and no timer; on the API the watch is asked for again about once an hour.
//!
//! # Assumptions
//! It runs as root in the mount namespace that jobs see. The objects given to it are those of this node; it trusts
//! nothing else in them.

pub mod agent;
pub mod claims;
pub mod config;
pub mod coordinator;
pub mod desire;
pub mod desired;
pub mod direct;
pub mod error;
pub mod former;
pub mod hello;
pub mod holders;
pub mod kubernetes;
pub mod link;
pub mod node;
pub mod outbox;
pub mod reconcile;
pub mod records;
pub mod report;
pub mod run;
pub mod serve;
pub mod site;
pub mod sweep;
#[cfg(test)]
mod testing;
pub mod volumes;
pub mod words;

pub use desired::desired;

//! The agent of a compute: mounts what ClientMounts ask for, as a coordinator or its own watch on the API tells it.
//!
//! # Path of data
//! ```text
//! coordinator ─ agent::link ─► agent ─ agent::desired, reconcile, report ─► agent::outbox ─► coordinator
//! API ─────────────── direct ─►                                                          └─► direct ─► API
//! script ───────────── serve ─► job (waits for agent and coordinator) ─► script
//! ```
//! # Guarantees
//! * Nothing is unmounted because the coordinator or the API is away, and nothing of ours stays mounted that no object wants.
//! * At rest there is one idle connection and no timer; on the API the watch is asked for again about once an hour.

pub mod agent;
pub mod clients;
pub mod config;
pub mod direct;
pub mod idle;
pub mod job;
pub mod kubernetes;
pub mod run;
pub mod serve;
pub mod subcommand;
pub mod view;

//! The agent of a compute: mounts what ClientMounts ask for, which it receives from a coordinator or from its own watch on the
//! API.
//!
//! # Path of data
//! ```text
//! coordinator ─ agent::link ─► agent ─ agent::desired, reconcile, report ─► agent::outbox ─► coordinator
//! API ─────────────── direct ─►                                                          └─► direct ─► API
//! script ───────────── serve ─► job (waits for agent and coordinator) ─► script
//! ```
//! # Guarantees
//! * The agent unmounts nothing because the coordinator or the API is away, and leaves no unwanted mount of Warren's.
//! * At rest the agent has one idle connection and no timer; when it watches the API it restarts the watch about once an hour.

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

//! Runs the agent against an API in this process and drives in memory.

#![expect(clippy::unwrap_used, reason = "what cannot be set up fails its test")]

mod api_troubles;
mod bench;
mod block_storage;
mod client_mount;
mod containers;
mod contract;
mod events;
mod fence;
mod health;
mod index_root;
mod lustre_mgt;
mod movements;
mod namespace;
mod node;
mod node_storage;
mod panics;
mod plans;
mod restart;
mod servers;
mod versions;
mod wiring;

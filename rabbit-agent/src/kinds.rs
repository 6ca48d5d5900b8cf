//! The kinds that the agent reconciles, one folder per kind.

pub mod block_storage;
pub mod client_mount;
pub mod container;
pub mod lustre_mgt;
pub mod movement;
pub mod node;
pub mod node_storage;

//! Tests of a coordinator that serves the API itself, with real sockets and test agents.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agent;
mod health;
mod life_cycle;
mod namespaces;
mod refused;
mod restart;
mod sessions;
mod silent;
mod standalone_coordinator;
mod tls;
mod workloads;

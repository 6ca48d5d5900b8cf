//! The API in process: raw requests on the tower Service, and a real kube client on top of it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod client;
mod crds;
mod delete;
mod open;
mod ours;
mod read;
mod requests;
mod server;
mod tables;
mod watch;
mod write;

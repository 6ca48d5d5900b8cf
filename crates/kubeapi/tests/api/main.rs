//! The test suite of the API on the embedded server, in process: raw requests to the tower Service, and a real kube
//! client. `tests/kube` runs the same suite on a real kube-apiserver. Features of the embedded server alone are tested
//! in `embedded`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod client;
#[path = "../contract/mod.rs"]
mod contract;
mod crds;
mod delete;
mod embedded;
mod exchange;
mod known;
mod normal;
mod ours;
mod read;
mod requests;
mod script;
mod server;
mod stream;
mod tables;
mod transcripts;
mod watch;
mod widget;
mod write;

//! Runs the test suite of the embedded server (`tests/api`) on a real kube-apiserver. The tests must pass there too: if
//! they do not, the embedded server differs from a real server.
//!
//! Run by `make kube`, which passes the server's address in `WARREN_KUBE`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../api/client.rs"]
mod client;
mod compaction;
#[path = "../contract/mod.rs"]
mod contract;
#[path = "../api/crds.rs"]
mod crds;
#[path = "../api/delete.rs"]
mod delete;
#[path = "../api/exchange.rs"]
mod exchange;
#[path = "../api/known.rs"]
mod known;
#[path = "../api/normal.rs"]
mod normal;
#[path = "../api/ours.rs"]
mod ours;
#[path = "../api/read.rs"]
mod read;
#[path = "../api/requests.rs"]
mod requests;
#[path = "../api/script.rs"]
mod script;
mod server;
#[path = "../api/stream.rs"]
mod stream;
#[path = "../api/tables.rs"]
mod tables;
#[path = "../api/transcripts/mod.rs"]
mod transcripts;
#[path = "../api/watch.rs"]
mod watch;
#[path = "../api/widget.rs"]
mod widget;
#[path = "../api/write.rs"]
mod write;

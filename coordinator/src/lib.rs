//! The coordinator watches and writes the Kubernetes API on behalf of thousands of computes.
//!
//! ```text
//! API ─ watch ─► fanout ─ link ─► node's agent   one watch per kind, one stream per node
//! API ◄─ writes ◄─ fanout ◄─ link ◄─ node's agent   one writer per object, newest status wins
//! ```
//!
//! The coordinator keeps no state that it could lose: API objects name the mounts, and nodes send every report whenever
//! they connect. So a coordinator may be killed at any moment, and any number of them may run, each for the nodes that
//! are connected to it.
//!
//! Guarantees:
//! * A coordinator sends a ClientMount to a node only once the object carries the finalizer, and adds the finalizer only
//!   while the node's agent is connected: a missing finalizer shows the central controllers that no agent works on the object.
//! * It removes the finalizer only when the node's newest session reports that the mount is undone completely; for a node without
//!   a session, only when the object's own status says so (`fanout`).
//! * A node receives its own mounts only, also when it waits for a job.
//! * It sends `Synced` only after every object that existed, and only once it has read all pages of the lists.
//! * A node that connects receives nothing until the API has listed its objects after the connect, and the watch has delivered them
//!   all: so a coordinator whose watch is behind does not revoke messages of another coordinator.
//! * A life cycle costs four writes: finalizer, mounted, unmounted, finalizer. Its own writes wake no node.
//! * A node reports on its own objects only; a report of a replaced session, on another node's object, or on an earlier version of
//!   the object changes nothing.
//!
//! The service `Workloads`:
//! * It holds no state. The Workflow has all that outlives a call: requested state, deadlines, who aborted it, lost
//!   computes.
//! * It forces a state ready only when lost computes, each with evidence, are all that the job waits for.
//! * Beside a Workflow it writes only its Computes, each in the version that it read.
//! * It calls a node bad only on evidence of the node, its certificate, its rabbit or the workload manager, and names
//!   the source.
//! * A user of the host acts only for itself; the kernel or a certificate says who calls. Job ids belong to a workload
//!   manager, which the configuration ties to users; a user's own jobs have their own ids.
//!
//! Assumptions: clocks of one node do not jump back by more than the time between two boots; two replicas do not serve
//! two agents of one name at a time.

mod abandoned;
mod admission;
mod cluster;
pub mod config;
mod engine;
mod files;
mod health;
mod http;
mod hub;
mod layout;
mod link;
mod list_limit;
mod namespaces;
mod peer;
mod questions;
#[cfg(feature = "standalone")]
mod restore;
mod roster;
mod run;
mod serve;
#[cfg(feature = "standalone")]
mod standalone;
#[cfg(not(feature = "standalone"))]
#[path = "without_standalone.rs"]
mod standalone;
mod webhook;
mod workloads;

pub use http::HttpError;
#[cfg(feature = "standalone")]
pub use restore::{RestoreFailed, restore};
pub use run::{Coordinator, RunError, StartError, run};
pub use serve::ServeError;
#[cfg(not(feature = "standalone"))]
pub use standalone::{RestoreFailed, restore};
pub use webhook::WebhookError;

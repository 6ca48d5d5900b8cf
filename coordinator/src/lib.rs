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
//! * A coordinator sends a ClientMount to a node only once the object carries the finalizer, and adds the finalizer
//!   only while the node's agent is connected: a missing finalizer shows the site's controllers that no agent works
//!   on the object.
//! * A coordinator removes the finalizer only when the node's newest session reports that the mount is undone
//!   completely; for a node without a session, only when the object's own status says so (`fanout`).
//! * A node receives only its own mounts, also in answers about a job.
//! * A coordinator sends `Synced` (the message that all objects were sent) only after every object that existed when
//!   the session started, and only once the coordinator has read all pages of the lists.
//! * When a node connects, the coordinator lists the objects from the API anew, and sends the node nothing until the
//!   watch has delivered every listed object. Otherwise a coordinator whose watch is behind could send an old version,
//!   and so undo what the node has received from another coordinator.
//! * The life cycle of a ClientMount costs four writes: add the finalizer, status mounted, status unmounted, remove
//!   the finalizer. A coordinator's own write causes no message to the node.
//! * A node reports on its own objects only; a report of a replaced session, on another node's object, or on an
//!   earlier version of the object changes nothing.
//!
//! The service `Workloads`:
//! * The service holds no state. The Workflow holds every fact that outlives a call: the requested state, the
//!   deadlines, the caller that aborted the job, and the lost computes.
//! * The service forces a state ready (the engine then reports the state as ready although it is not) only if the job
//!   waits only for lost computes, and each loss has evidence.
//! * Besides a Workflow the service writes only the Workflow's Computes, which lists the job's nodes. Each write
//!   applies only to the version that the service read.
//! * The service calls a node faulty or down only on evidence from the node, its certificate, its rabbit or the
//!   workload manager, and names the source.
//! * A user of the host acts only for themselves; the kernel or a certificate identifies the caller. Job ids belong
//!   to a workload manager, and the configuration names the users that run it; a user's own jobs have the manager
//!   `user-UID`.
//!
//! Assumptions: clocks of one node do not jump back by more than the time between two boots; no two coordinators serve
//! two agents of the same node name at the same time.

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

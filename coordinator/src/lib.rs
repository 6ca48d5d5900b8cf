//! The coordinator watches and writes the Kubernetes API on behalf of thousands of computes.
//!
//! ```text
//! API ─ watch ─► fanout ─ link ─► node's agent   one watch per kind, one stream per node
//! API ◄─ writes ◄─ fanout ◄─ link ◄─ node's agent   one writer per object, newest status wins
//! ```
//!
//! The coordinator keeps no state of its own that could be lost: API objects name the mounts, and nodes send all of
//! their reports whenever they connect. So a coordinator may be killed at any moment. Any number of coordinators may
//! run, each for the nodes that are connected to it.
//!
//! Guarantees:
//! * A coordinator sends a ClientMount to a node only once the object carries the finalizer. It adds the finalizer
//!   only while the node's agent is connected, so the site's controllers know that no agent works on an object without
//!   the finalizer.
//! * A coordinator removes the finalizer only when the node's newest session reports that everything is unmounted; for
//!   a node without a session, only when the object's status says that everything is unmounted (`fanout`).
//! * A node receives only its own mounts, also in answers about a job.
//! * A coordinator sends `Synced` (the message that all objects were sent) only after every object that existed when
//!   the session started.
//! * When a node connects, the coordinator lists the node's objects from the API anew, and sends the node nothing until
//!   the watch has delivered every listed object. Otherwise a coordinator whose watch lags behind could send an old
//!   version, and so undo what the node has received from another coordinator.
//! * The life cycle of a ClientMount costs four writes: add the finalizer, status mounted, status unmounted, remove
//!   the finalizer. A coordinator's own write causes no message to the node.
//! * A report has no effect if its session was replaced, if it is on another node's object, or if it is on an earlier
//!   version of the object.
//!
//! The service `Workloads`:
//! * The service holds no state. The Workflow holds every fact that outlives a call: the requested state, the
//!   deadlines, the caller that aborted the job, and the lost computes.
//! * The service can force a state to be ready: the engine then reports the state as ready although it is not. The
//!   service does so only if the job waits for nothing but lost computes, and if each loss has evidence.
//! * Besides a Workflow the service writes only the Workflow's Computes, which lists the job's nodes. Each write
//!   applies only to the version that the service read.
//! * The service calls a node faulty or down only on evidence from the node, its certificate, its rabbit or the
//!   workload manager, and names the source.
//! * A user of the host acts only for themselves; the kernel or a certificate identifies the caller. Each job id
//!   belongs to a workload manager, and the configuration names the users that run the manager. The jobs that a user
//!   creates without a workload manager belong to the manager `user-UID`.
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
mod plans;
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

//! The one place that talks for thousands of computes.
//!
//! ```text
//! API ─ watch ─► fanout ─ link ─► node's agent   one watch per kind, one stream per node
//! API ◄─ writes ◄─ fanout ◄─ link ◄─ node's agent   one writer per object, newest status wins
//! ```
//!
//! It keeps no state of its own that matters: what is wanted is in API objects, what is there is asked from the nodes,
//! which tell everything they know whenever they connect. So it may be killed at any moment and any number of them may
//! run side by side, each for the nodes connected to it.
//!
//! Guarantees:
//! * A node is told of a ClientMount only after the object carries the node's finalizer, and the finalizer is put on only
//!   while the node's agent is connected: without an agent, the central controllers see that nobody took the object up.
//! * The finalizer goes only on the word of the node's newest session that nothing of the mount is left.
//! * `Synced` is said only when every object that existed was told, from lists that were read to their end.
//! * A node that connects is told nothing before the API was asked since for its objects and the watch knows them all: what
//!   another coordinator told it is not taken back by one that is behind.
//! * A life cycle costs four writes: finalizer, mounted, unmounted, finalizer. Own writes are told to nobody.
//! * A node speaks for itself only; a report of a replaced session, on another node's object, or on an earlier version of
//!   the object changes nothing.
//!
//! Assumptions: clocks of one node do not jump back by more than the time between two boots; two replicas do not serve
//! two agents of one name at a time.

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

pub use http::HttpError;
#[cfg(feature = "standalone")]
pub use restore::{RestoreFailed, restore};
pub use run::{Coordinator, RunError, StartError, run};
pub use serve::ServeError;
#[cfg(not(feature = "standalone"))]
pub use standalone::{RestoreFailed, restore};
pub use webhook::WebhookError;

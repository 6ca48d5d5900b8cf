//! The parts that all controllers have in common: they watch objects, store them, queue their keys, and write them back.
//!
//! ```text
//! watch ─► Store ─► Change ─► Queue ─► reconcile (the controller's own) ─► patch, Events
//! ```
//! kube-runtime does the watching, the Events and the delays. Three parts are ours, each for what kube-runtime lacks:
//! * [`watch`](fn@watch): kube-runtime's watcher continues from its last resourceVersion after a failure, and so misses
//!   what an API restored from a backup has lost; ours lists again.
//! * [`Store`]: kube-runtime's `reflector::Store` has no place for an object that cannot be read, and tells of an event only what
//!   is new, not what it replaced; a mount of an object that cannot be read must stay.
//! * [`Queue`]: kube-runtime's `Controller` starts each reconcile by itself; ours asks whether it may begin (clean-ups, erasing
//!   drives and paths in use hold some back), and has no timer at rest.
//!
//! # Guarantees
//! * A list that broke off removes nothing from a store.
//! * A patch names the resourceVersion that it was made from; the API refuses it with 409 once the object moved on.

pub mod events;
mod namespace;
mod object;
pub mod patch;
mod queue;
mod retry;
mod store;
mod update;
mod watch;

pub use namespace::ensure_namespace;
pub use object::{Object, describe, has_finalizer};
pub use queue::{Queue, Standing};
pub use retry::{Delays, Retry, delays};
pub use store::{Change, Fingerprint, ObjectKey, Store, precedes};
pub use update::{Update, updates, updates_if_served};
pub use watch::{Event, Item, Trouble, Unreadable, WatchHealth, Watched, watch};

//! The common parts of all controllers: they watch objects, store them, queue their keys, and write them back.
//!
//! ```text
//! watch ─► Store ─► Change ─► Queue ─► reconcile (the controller's own) ─► patch, Events
//! ```
//! Watching, Events and delays come from kube-runtime. Three parts are our own, each because of a gap in kube-runtime:
//! * [`watch`](fn@watch): kube-runtime's watcher continues from its last resourceVersion after a failure, and so misses
//!   what an API restored from a backup has lost; ours lists again.
//! * [`Store`]: kube-runtime's `reflector::Store` has no place for an object that cannot be decoded, and reports of an
//!   event only the new object, not the one that it replaced. A mount of an object that cannot be decoded must stay.
//! * [`Queue`]: kube-runtime's `Controller` starts each reconcile by itself; ours asks whether the reconcile may begin
//!   (clean-ups, the erasing of drives and paths in use delay some), and has no timer while idle.
//!
//! # Guarantees
//! * A list that broke off removes no object from a store.
//! * A patch names the resourceVersion that it was made from; the API refuses it with 409 once the object has changed.

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

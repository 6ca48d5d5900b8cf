//! The common parts of all controllers: watching objects, storing them in memory, queueing their keys for reconciles,
//! and writing changes to the API.
//!
//! ```text
//! watch ─► Store ─► Change ─► Queue ─► reconcile (the controller's own) ─► patch, Events
//! ```
//! Watching and Events come from kube-runtime. Three parts are our own, because kube-runtime
//! lacks something in each:
//! * [`watch`](fn@watch): kube-runtime's watcher continues from its last resourceVersion after a failure. If the API
//!   was restored from a backup meanwhile, this watcher does not learn which objects the backup lacks; our watcher
//!   lists all objects again.
//! * [`Store`]: kube-runtime's `reflector::Store` drops an object that cannot be decoded, but the mounts of such an
//!   object must stay. Also, the events of `reflector::Store` contain only the new object, not the object before the
//!   change.
//! * [`Queue`]: kube-runtime's `Controller` starts each reconcile by itself. Our queue asks the caller before each
//!   reconcile whether that reconcile may begin: clean-ups, the erasing of drives, and paths in use delay some
//!   reconciles. Our queue also has no timer while idle.
//!
//! # Guarantees
//! * A list that breaks off before its end removes no object from a store.
//! * A patch contains the resourceVersion of the object from which it was computed; the API refuses the patch with 409
//!   if the object has changed since.

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
pub use retry::Retry;
pub use store::{Change, Fingerprint, ObjectKey, Store, precedes};
pub use update::{Update, updates, updates_if_served};
pub use watch::{Event, Item, Trouble, Unreadable, WatchHealth, Watched, watch};

//! Reconciles NnfLustreMGT: gives out file system names of the Lustre management target on this rabbit, and runs
//! commands on it.
//!
//! # Flow
//! [`plan`] derives one action from the object as the API last stored it; `reconcile` carries it out and writes the
//! result into the status; this repeats until no action is left. Actions give out a name for a claim, erase a name
//! whose claim was withdrawn, or run the commands of one entry.
//!
//! # Guarantees
//! * The status is the record. The API refuses a write if another came first, so no name is given out twice.
//! * A name is given out again only once the status says that it was erased from the target, or if its target is
//!   removed with it: the claim was that of the target's own NnfStorage, or the object was deleted.
//! * A name is erased only because its claim left the spec.
//!
//! # Caveats
//! After a crash the agent repeats actions whose result was not written: erasing twice is harmless, and commands are
//! the site's responsibility.

pub mod args;
mod config_map;
mod error;
pub mod plan;
mod reconcile;

pub use error::MgtError;
pub use reconcile::reconcile;

//! Reconciles NnfLustreMGT: gives out file system names for the Lustre management target on this rabbit, and runs
//! commands on the target.
//!
//! # Flow
//! [`plan`] derives one action from the object as the API last stored it. `reconcile` carries the action out and writes
//! the result into the status, until no action is left. An action gives out a name to a claim (an entry of the spec
//! that asks for a name), erases the name of a withdrawn claim, or runs the commands of one entry.
//!
//! # Guarantees
//! * The status is the record of names. The API refuses a write if another write came first, so no name is given out
//!   twice.
//! * A name is given out again only in two cases: the status says that the name was erased from the target, or the
//!   target is removed together with the name, because the claim is of the target's own NnfStorage or the object was
//!   deleted.
//! * A name is erased only after its claim left the spec.
//!
//! # Caveats
//! After a crash the agent repeats actions whose result was not written. To erase a name twice is harmless; whether the
//! commands may run twice is the site's responsibility.

pub mod args;
mod config_map;
mod error;
mod mgs;
pub mod plan;
mod reconcile;

pub use error::MgtError;
pub use reconcile::reconcile;

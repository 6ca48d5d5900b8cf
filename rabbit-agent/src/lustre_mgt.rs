//! NnfLustreMGT: which file system names the Lustre management target on this rabbit has given out, and the commands that
//! are run on it.
//!
//! # Flow
//! One action follows from the object as the API stored it after the one before, until none does: a name for a claim, the
//! erasure of a name whose claim was withdrawn, the commands of one entry. [`plan`] says which, `reconcile` does it and
//! writes it down.
//!
//! # Guarantees
//! * The status is the record, and a write that another one came before is refused: no name is given out twice.
//! * A name can be given out anew only when it was erased from the target, and that was written down; or when its target was
//!   to go with it: its claim was the target's own NnfStorage's, or the object was deleted.
//! * Names are erased when their claim left the spec, and for no other reason.
//!
//! # Caveats
//! What ran and was not written down runs again after a crash: erasing twice is harmless, commands are the site's.

pub mod args;
mod config_map;
mod error;
pub mod name;
pub mod plan;
mod reconcile;

pub use error::MgtError;
pub use reconcile::reconcile;

//! Turns a panic into an error of the unit in which it happened.

#[cfg(panic = "abort")]
compile_error!("a panic fails its unit, not the process: build with panic = \"unwind\"");

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use thiserror::Error;

/// A defect of this program. The panic's own message in the log names the place.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("a defect of this agent (report it with the log): {0}")]
pub struct Panicked(String);

impl Panicked {
    /// Takes the message from the payload of a panic.
    pub fn from_payload(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        Self(text.unwrap_or("it panicked").to_owned())
    }
}

/// Runs `work` and turns a panic into an error. `work` must keep all shared data consistent at all times: the locks
/// beneath [`Host`](crate::Host) protect maps and lists that one call changes.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panicked::from_payload(&*payload))
}

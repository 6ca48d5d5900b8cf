//! Turns a panic into an error of the unit in which it happened.

#[cfg(panic = "abort")]
compile_error!("a panic fails its unit, not the process: build with panic = \"unwind\"");

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use thiserror::Error;

/// A defect of this program. The log has the panic's own message, which names the place in the source.
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

/// Runs `work` and turns a panic into an error. `work` must not leave shared data inconsistent when it panics.
/// Implementations of [`Host`](crate::Host) satisfy this: their locks protect only maps and lists, each changed by a
/// single call.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panicked::from_payload(&*payload))
}

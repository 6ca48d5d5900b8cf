//! Files of the agents: written so that each is complete or absent after a crash, and removed as trees of any depth.

mod durable;
mod tree;

use std::io::{self, ErrorKind};

pub use durable::{sync_directory, sync_parent, write_durably};
pub use tree::remove_tree;

/// Turns the error `NotFound` into `None`.
///
/// # Errors
/// Every other error of `result`.
pub fn none_if_absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

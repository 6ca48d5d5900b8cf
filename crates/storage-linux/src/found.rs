use std::io::{self, ErrorKind};

/// Turns the error `NotFound` into `None`.
pub(super) fn none_if_absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

//! Logs go to journald when it is what stderr is connected to, with every key-value as a field of its own, else to
//! stderr as text.

use std::io;

use log::LevelFilter;
use systemd_journal_logger::{JournalLog, connected_to_journal};
use thiserror::Error;

/// Why logging could not start.
#[derive(Debug, Error)]
pub enum LoggingError {
    /// journald's socket is not there.
    #[error("connect to journald")]
    Connect(#[source] io::Error),
    /// Logging was started before.
    #[error("logging is already started")]
    Twice,
}

/// Starts logging at `level` and above (`RUST_LOG` refines it on stderr). Call once, first thing.
///
/// # Errors
/// When journald should take the logs and cannot be reached, or when called twice.
pub fn start_logging(level: LevelFilter) -> Result<(), LoggingError> {
    if connected_to_journal() {
        JournalLog::new()
            .map_err(LoggingError::Connect)?
            .install()
            .map_err(|_| LoggingError::Twice)?;
        log::set_max_level(level);
        return Ok(());
    }
    env_logger::Builder::new()
        .filter_level(level)
        .parse_default_env()
        .format_timestamp_millis()
        .try_init()
        .map_err(|_| LoggingError::Twice)
}

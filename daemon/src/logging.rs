//! Logs go to journald when it is what stderr is connected to, with every key-value as a field of its own, else to
//! stderr as text.

use std::io;

use log::{LevelFilter, Log, Metadata, Record};
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

/// The Kubernetes client logs every failed request as an error before it returns it; whoever asked says it once, with what
/// it means.
const SAID_TWICE: &str = "kube_client::client::builder";

/// A logger without what is said twice.
struct Once<L>(L);

impl<L: Log> Log for Once<L> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() != SAID_TWICE && self.0.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if record.target() != SAID_TWICE {
            self.0.log(record);
        }
    }

    fn flush(&self) {
        self.0.flush();
    }
}

/// Starts logging at `level` and above (`RUST_LOG` refines it on stderr). Call once, first thing.
///
/// # Errors
/// When journald should take the logs and cannot be reached, or when called twice.
pub fn start_logging(level: LevelFilter) -> Result<(), LoggingError> {
    if connected_to_journal() {
        let journal = JournalLog::new().map_err(LoggingError::Connect)?;
        return install(journal, level);
    }
    let text = env_logger::Builder::new()
        .filter_level(level)
        .parse_default_env()
        .format_timestamp_millis()
        .build();
    let level = text.filter();
    install(text, level)
}

fn install(logger: impl Log + 'static, level: LevelFilter) -> Result<(), LoggingError> {
    log::set_boxed_logger(Box::new(Once(logger))).map_err(|_| LoggingError::Twice)?;
    log::set_max_level(level);
    Ok(())
}

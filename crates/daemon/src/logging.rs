//! Logs to journald if stderr is connected to journald, with every key-value as a field; otherwise logs to stderr as
//! text. The text is the same in both cases. A value that the message does not contain is appended to the text as
//! ` key=value`, because journalctl prints only the text.

use std::io;

use log::{
    LevelFilter, Log, Metadata, Record,
    kv::{Error as VisitError, Key, Value, VisitSource},
};
use systemd_journal_logger::{JournalLog, connected_to_journal};
use thiserror::Error;

/// The reason why logging could not start.
#[derive(Debug, Error)]
pub enum LoggingError {
    /// The daemon cannot connect to journald's socket.
    #[error("connect to journald")]
    Connect(#[source] io::Error),
    /// [`start_logging`] was called twice.
    #[error("logging is already started")]
    Twice,
}

/// Target of the Kubernetes client's messages about failed requests. The logger drops these messages, because each
/// caller of the client logs the returned error, with its context.
const LOGGED_BY_CALLERS: &str = "kube_client::client::builder";

/// A logger that drops messages of [`LOGGED_BY_CALLERS`], and appends key-values to the text.
struct WithValues<L>(L);

/// The text of a record: the message, then the appended values. `own` is the length of the message.
struct Line {
    text: String,
    own: usize,
}

impl Line {
    /// Returns the text of a record, with appended values and escaped control characters.
    fn render(record: &Record<'_>) -> String {
        let text = record.args().to_string();
        let mut line = Self { own: text.len(), text };
        // `visit` fails only if the visitor fails, and this visitor never does.
        drop(record.key_values().visit(&mut line));
        // Users may write control characters into objects. Newlines and tabs are kept: a command's output has many
        // lines.
        causes::escaped(&line.text, "\n\t")
    }

    /// Returns whether the message contains `value` as a whole word.
    fn names(&self, value: &str) -> bool {
        let in_word = |char: char| char.is_alphanumeric() || "-_".contains(char);
        let own = &self.text[..self.own];
        !value.is_empty()
            && own.match_indices(value).any(|(at, found)| {
                let (before, after) = (&own[..at], &own[at + found.len()..]);
                !before.ends_with(in_word) && !after.starts_with(in_word)
            })
    }
}

impl<'kvs> VisitSource<'kvs> for Line {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), VisitError> {
        let value = value.to_string();
        if !self.names(&value) {
            self.text.push_str(&format!(" {key}={value}"));
        }
        Ok(())
    }
}

impl<L: Log> Log for WithValues<L> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() != LOGGED_BY_CALLERS && self.0.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if record.target() != LOGGED_BY_CALLERS {
            let text = Line::render(record);
            self.0.log(&record.to_builder().args(format_args!("{text}")).build());
        }
    }

    fn flush(&self) {
        self.0.flush();
    }
}

/// Starts logging at `level` and above (`RUST_LOG` refines it on stderr). Call it once, before the first message.
///
/// # Errors
/// If journald cannot be reached, or when called twice.
pub fn start_logging(level: LevelFilter) -> Result<(), LoggingError> {
    if connected_to_journal() {
        let journal = JournalLog::new().map_err(LoggingError::Connect)?;
        return install(journal, level);
    }
    let text = env_logger::Builder::new()
        .filter_level(level)
        .parse_default_env()
        .format_timestamp_millis()
        .format_key_values(|_, _| Ok(()))
        .build();
    let level = text.filter();
    install(text, level)
}

fn install(logger: impl Log + 'static, level: LevelFilter) -> Result<(), LoggingError> {
    log::set_boxed_logger(Box::new(WithValues(logger))).map_err(|_| LoggingError::Twice)?;
    log::set_max_level(level);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Records the text and the number of fields of each message.
    #[derive(Default)]
    struct Journal(Mutex<Vec<(String, usize)>>);

    impl Log for &Journal {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn log(&self, record: &Record<'_>) {
            let fields = record.key_values().count();
            self.0.lock().unwrap().push((record.args().to_string(), fields));
        }

        fn flush(&self) {}
    }

    fn log_line(text: &str, values: &[(&str, &str)]) -> (String, usize) {
        let journal = Journal::default();
        let logger = WithValues(&journal);
        logger.log(&Record::builder().args(format_args!("{text}")).key_values(&values).build());
        let lines = std::mem::take(&mut *journal.0.lock().unwrap());
        let [line] = <[_; 1]>::try_from(lines).unwrap();
        line
    }

    #[test]
    fn control_characters_are_escaped() {
        let (line, _) = log_line("mount \u{1b}[2J/x: no\n\tsuch", &[("path", "\u{9b}2J\u{7}")]);
        assert_eq!(line, "mount \\u{1b}[2J/x: no\n\tsuch path=\\u{9b}2J\\u{7}");
    }

    #[test]
    fn values_missing_in_the_message_are_appended_and_fields_are_kept() {
        let values = [("node", "compute-1"), ("why", "a newer agent")];
        for (text, line) in [
            ("refuse a hello", "refuse a hello node=compute-1 why=a newer agent"),
            ("compute-1: refuse a hello", "compute-1: refuse a hello why=a newer agent"),
            ("compute-1 has a newer agent", "compute-1 has a newer agent"),
            // The message names compute-12, not compute-1: the value is appended.
            ("compute-12 has a newer agent", "compute-12 has a newer agent node=compute-1"),
        ] {
            assert_eq!(log_line(text, &values), (line.to_owned(), 2));
        }
        assert_eq!(log_line("connected", &[]).0, "connected");
    }
}

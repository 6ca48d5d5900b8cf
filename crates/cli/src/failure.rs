//! The failure of a verb: error, causes, remedy and exit status.

use std::error::Error;
use std::io;

use serde_json::{Value, json};

use crate::exit::Exit;

/// Remedy when the user has no permission to connect to a unix socket.
const LOCKED: &str = "only root and the daemon's own user may use the socket: run the command with sudo, or as that user";
/// Remedy when the server closed the connection.
const CLOSED: &str = "the server closed the connection: a unix socket accepts only root and the daemon's own user (run the command with sudo); for another cause see the daemon's log";

/// Remedy of a failure that has details, and for which no other remedy is known.
const MORE: &str = "--verbose prints the messages of objects and nodes";

/// A failed verb: the failed step, its causes, and the remedy.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    what: String,
    causes: Vec<String>,
    remedy: Option<String>,
    details: Vec<String>,
}

impl Failure {
    /// Creates a failure of the step `what`.
    pub fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), causes: Vec::new(), remedy: None, details: Vec::new() }
    }

    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Sets the remedy, unless one is set already.
    #[must_use]
    pub fn or_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy.get_or_insert_with(|| remedy.into());
        self
    }

    /// Adds lines that are printed with `--verbose`.
    #[must_use]
    pub fn details(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(lines);
        self
    }

    /// Adds an error and all its sources as a cause.
    #[must_use]
    pub fn because(mut self, error: &(dyn Error + 'static)) -> Self {
        self.causes.push(causes::chain(error));
        self
    }

    /// Creates the failure of a connection attempt. `absent` is the remedy if no server listens at the address.
    pub fn unreachable(
        what: impl Into<String>,
        error: &(dyn Error + 'static),
        absent: &str,
    ) -> Self {
        let remedy = if is_locked(error) {
            LOCKED
        } else if is_closed(error) {
            CLOSED
        } else {
            absent
        };
        Self::new(Exit::Unreachable, what).because(error).remedy(remedy)
    }

    /// Creates the failure of the step `what` from a gRPC error.
    pub fn grpc(what: impl Into<String>, status: &tonic::Status) -> Self {
        let cut = status.source().is_some_and(|source| source.is::<tonic::transport::Error>());
        if cut || status.code() == tonic::Code::Unavailable {
            return Self::unreachable(what, status, CLOSED);
        }
        let exit = match status.code() {
            tonic::Code::InvalidArgument => Exit::Usage,
            tonic::Code::Aborted
            | tonic::Code::ResourceExhausted
            | tonic::Code::DeadlineExceeded => Exit::Retryable,
            _ => Exit::Failed,
        };
        Self::new(exit, format!("{}: {}", what.into(), status.message()))
    }

    /// Replaces the status [`Exit::Unreachable`] by [`Exit::NoAgent`], for a request to this node's agent.
    #[must_use]
    pub fn of_agent(mut self) -> Self {
        if self.exit == Exit::Unreachable {
            self.exit = Exit::NoAgent;
        }
        self
    }

    /// Returns the message without colour. All lines but the first are indented: a text that another program wrote may
    /// contain line breaks, and must not look like a message of this program.
    pub fn text(&self) -> String {
        let more = || (!self.details.is_empty()).then(|| MORE.to_owned());
        self.lines(self.remedy.clone().or_else(more))
    }

    fn lines(&self, remedy: Option<String>) -> String {
        let lines = std::iter::once(self.message()).chain(remedy);
        lines.collect::<Vec<_>>().join("\n").replace('\n', "\n  ")
    }

    /// Returns the message with the details.
    pub fn full_text(&self) -> String {
        let first = self.lines(self.remedy.clone());
        let lines =
            std::iter::once(first).chain(self.details.iter().map(|line| causes::escaped(line, "")));
        lines.collect::<Vec<_>>().join("\n  ")
    }

    /// Returns the failure as JSON.
    pub fn json(&self) -> Value {
        let mut json = json!({"message": self.message(), "remedy": self.remedy, "exitStatus": self.exit as u8});
        if !self.details.is_empty() {
            json["details"] = json!(self.details);
        }
        json
    }

    /// Returns the failed step with its causes.
    fn message(&self) -> String {
        let mut message = self.what.clone();
        for cause in &self.causes {
            message.push_str(": ");
            message.push_str(cause);
        }
        message
    }

    /// Adds a cause with a text that another program wrote.
    pub fn add_cause(&mut self, cause: String) {
        self.causes.push(cause);
    }
}

fn sources<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn is_locked(error: &(dyn Error + 'static)) -> bool {
    let mut causes = sources(error).filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::PermissionDenied)
}

/// Returns whether the server accepted the connection and then closed it.
fn is_closed(error: &(dyn Error + 'static)) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    let by_http = |cause: &hyper::Error| {
        cause.is_incomplete_message() || cause.is_closed() || cause.is_canceled()
    };
    let by_kernel =
        |cause: &io::Error| matches!(cause.kind(), BrokenPipe | ConnectionReset | UnexpectedEof);
    sources(error).any(|cause| {
        cause.downcast_ref().is_some_and(by_http) || cause.downcast_ref().is_some_and(by_kernel)
    })
}

impl From<io::Error> for Failure {
    /// If the reader has closed the output (`| head`), the verb ends without failure.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Done, "");
        }
        Self::new(Exit::Failed, "write the output").because(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_printed_only_in_the_full_text() {
        let failure = || Failure::new(Exit::Failed, "a").details(["b\nc", "d"].map(str::to_owned));
        assert_eq!(failure().text(), format!("a\n  {MORE}"));
        assert_eq!(failure().or_remedy("do").text(), "a\n  do");
        assert_eq!(failure().remedy("do").or_remedy("undo").full_text(), "a\n  do\n  b\\nc\n  d");
        assert_eq!(failure().json()["details"], json!(["b\nc", "d"]));
        assert_eq!(Failure::new(Exit::Failed, "a").full_text(), "a");
    }

    #[test]
    fn the_remedy_depends_on_the_kind_of_error() {
        for (kind, remedy) in [
            (io::ErrorKind::PermissionDenied, "sudo"),
            (io::ErrorKind::ConnectionReset, "closed the connection"),
            (io::ErrorKind::NotFound, "start it"),
            (io::ErrorKind::ConnectionRefused, "start it"),
        ] {
            let error = io::Error::from(kind);
            let text = Failure::unreachable("connect", &error, "start it").text();
            assert!(text.contains(remedy), "{kind}: {text}");
        }
    }
}

//! Why a verb failed, what to do about it, and the exit status that says so.

use std::error::Error;
use std::io;

use serde_json::{Value, json};

use crate::exit::Exit;

/// The remedy when a unix socket is not ours to open.
const LOCKED: &str =
    "the socket is for root and the daemon's own user: run it with sudo, or as that user";
const CLOSED: &str = "the other side closed the connection: a unix socket lets in only root and the daemon's own user (run it with sudo); else its log tells why";

/// The remedy of a failure that has details and no remedy of its own.
const MORE: &str = "--verbose tells what each object and node says";

/// A failed verb: one line of what, lines of why, one line of what to do.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    what: String,
    causes: Vec<String>,
    remedy: Option<String>,
    details: Vec<String>,
}

impl Failure {
    /// A failure in words of our own.
    pub fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), causes: Vec::new(), remedy: None, details: Vec::new() }
    }

    /// What to do next.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// What to do next, unless that is said already.
    #[must_use]
    pub fn or_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy.get_or_insert_with(|| remedy.into());
        self
    }

    /// What else there is to know, a line each, for those who ask with `--verbose`.
    #[must_use]
    pub fn details(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(lines);
        self
    }

    /// Why, by the chain of an error.
    #[must_use]
    pub fn because(mut self, error: &(dyn Error + 'static)) -> Self {
        self.causes.push(causes::chain(error));
        self
    }

    /// Nobody to talk to, or nobody who talks to us; `absent` is the remedy when the other side is not there.
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

    /// A gRPC service's answer to an attempt to do `what`.
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

    /// The same of a request to this node's agent: the agent is out of reach, and not the coordinator.
    #[must_use]
    pub fn of_agent(mut self) -> Self {
        if self.exit == Exit::Unreachable {
            self.exit = Exit::NoAgent;
        }
        self
    }

    /// A message for people, without colour; causes said already are left out. All lines but the first are indented, so
    /// that what others wrote cannot pass for a message of its own.
    pub fn text(&self) -> String {
        let more = || (!self.details.is_empty()).then(|| MORE.to_owned());
        self.lines(self.remedy.clone().or_else(more))
    }

    fn lines(&self, remedy: Option<String>) -> String {
        let lines = std::iter::once(self.message()).chain(remedy);
        lines.collect::<Vec<_>>().join("\n").replace('\n', "\n  ")
    }

    /// The same, with the details.
    pub fn full_text(&self) -> String {
        let first = self.lines(self.remedy.clone());
        let lines =
            std::iter::once(first).chain(self.details.iter().map(|line| causes::escaped(line, "")));
        lines.collect::<Vec<_>>().join("\n  ")
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        let mut json = json!({"message": self.message(), "remedy": self.remedy, "exitStatus": self.exit as u8});
        if !self.details.is_empty() {
            json["details"] = json!(self.details);
        }
        json
    }

    /// What and why.
    fn message(&self) -> String {
        let mut message = self.what.clone();
        for cause in &self.causes {
            message.push_str(": ");
            message.push_str(cause);
        }
        message
    }

    /// Why, in the words of somebody else.
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

/// Whether somebody took the connection and then closed it.
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
    /// Output that nobody reads (`| head`) is no failure.
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
    fn details_are_for_those_who_ask() {
        let failure = || Failure::new(Exit::Failed, "a").details(["b\nc", "d"].map(str::to_owned));
        assert_eq!(failure().text(), format!("a\n  {MORE}"));
        assert_eq!(failure().or_remedy("do").text(), "a\n  do");
        assert_eq!(failure().remedy("do").or_remedy("undo").full_text(), "a\n  do\n  b\\nc\n  d");
        assert_eq!(failure().json()["details"], json!(["b\nc", "d"]));
        assert_eq!(Failure::new(Exit::Failed, "a").full_text(), "a");
    }

    #[test]
    fn the_remedy_is_for_what_went_wrong() {
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

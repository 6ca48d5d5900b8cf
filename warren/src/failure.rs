//! Why a verb failed, what to do about it, and the exit status that says so.

use std::error::Error;
use std::io;

use kube::Error as KubeError;
use serde_json::{Value, json};

use crate::exit::Exit;

/// The remedy when a unix socket is not ours to open.
const LOCKED: &str =
    "the socket is for root and the daemon's own user: run it with sudo, or as that user";
const CLOSED: &str = "the other side closed the connection: a unix socket lets in only root and the daemon's own user (run it with sudo); else its log tells why";

/// A failed verb: one line of what, lines of why, one line of what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    pub exit: Exit,
    what: String,
    causes: Vec<String>,
    remedy: Option<String>,
}

impl Failure {
    /// A failure in words of our own.
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), causes: Vec::new(), remedy: None }
    }

    /// What to do next.
    #[must_use]
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Why, by the chain of an error.
    #[must_use]
    pub(crate) fn because(mut self, error: &(dyn Error + 'static)) -> Self {
        for error in chain(error) {
            self.add_cause(error.to_string());
        }
        self
    }

    /// Nobody to talk to, or nobody who talks to us; `absent` is the remedy when the other side is not there.
    pub(crate) fn unreachable(
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

    /// The API's answer to an attempt to do `what`.
    pub(crate) fn api(what: impl Into<String>, error: &KubeError) -> Self {
        if let KubeError::SerdeError(_) = error {
            return Self::new(Exit::Failed, what)
                .because(error)
                .remedy("the API's answer is not what this version of warren understands");
        }
        if let KubeError::BuildRequest(_) | KubeError::HttpError(_) = error {
            return Self::new(Exit::Usage, what).because(error);
        }
        let KubeError::Api(status) = error else {
            return Self::unreachable(
                what,
                error,
                "is the API up? Start it with `systemctl start warren-coordinator`, or name another with --server or --kubeconfig",
            );
        };
        let (exit, remedy) = match status.code {
            400 | 413 | 415 | 422 => (Exit::Usage, None),
            401 | 403 => (
                Exit::Failed,
                Some("run as root or as the coordinator's user, or use its kubeconfig"),
            ),
            409 => (
                Exit::Retryable,
                Some(
                    "someone else changed it: read it again with `warren get`; a file that keeps metadata.resourceVersion changes that version only",
                ),
            ),
            429 | 500..=599 => {
                (Exit::Retryable, Some("try again; the coordinator's log tells more"))
            }
            _ => (Exit::Failed, None),
        };
        let mut failure = Self::new(exit, what);
        let message = if status.message.is_empty() { &status.reason } else { &status.message };
        failure.add_cause(message.clone());
        failure.remedy = remedy.map(str::to_owned);
        failure
    }

    /// A gRPC service's answer to an attempt to do `what`.
    pub(crate) fn grpc(what: impl Into<String>, status: &tonic::Status) -> Self {
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

    /// A message for people, without colour; causes said already are left out. All lines but the first are indented, so
    /// that what others wrote cannot pass for a message of its own.
    pub(crate) fn text(&self) -> String {
        let mut text = self.message();
        if let Some(remedy) = &self.remedy {
            text.push('\n');
            text.push_str(remedy);
        }
        text.replace('\n', "\n  ")
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> Value {
        json!({"message": self.message(), "remedy": self.remedy, "exitStatus": self.exit as u8})
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

    /// Libraries repeat their sources in their own texts.
    fn add_cause(&mut self, cause: String) {
        if let Some(last) = self.causes.last_mut()
            && last.contains(&cause)
        {
            return;
        }
        self.causes.push(cause);
    }
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn is_locked(error: &(dyn Error + 'static)) -> bool {
    let mut causes = chain(error).filter_map(|cause| cause.downcast_ref::<io::Error>());
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
    chain(error).any(|cause| {
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
    use kube::core::Status;

    fn answer(code: u16, message: &str) -> KubeError {
        KubeError::Api(Box::new(Status { code, message: message.to_owned(), ..Status::default() }))
    }

    #[test]
    fn status_codes_become_exit_statuses() {
        for (code, exit) in [
            (422, Exit::Usage),
            (409, Exit::Retryable),
            (503, Exit::Retryable),
            (404, Exit::Failed),
        ] {
            assert_eq!(Failure::api("x", &answer(code, "")).exit, exit, "{code}");
        }
    }

    #[test]
    fn the_remedy_is_for_what_went_wrong() {
        for (kind, remedy) in [
            (io::ErrorKind::PermissionDenied, "sudo"),
            (io::ErrorKind::ConnectionReset, "closed the connection"),
            (io::ErrorKind::NotFound, "systemctl start"),
            (io::ErrorKind::ConnectionRefused, "systemctl start"),
        ] {
            let error = KubeError::Service(io::Error::from(kind).into());
            let text = Failure::api("list nodes", &error).text();
            assert!(text.contains(remedy), "{kind}: {text}");
        }
    }

    #[test]
    fn unreachable_api_says_how_to_start_it() {
        let error = KubeError::Service("connect /run/x: No such file".into());
        let failure = Failure::api("list nodes", &error);
        assert_eq!(failure.exit, Exit::Unreachable);
        let text = failure.text();
        assert!(text.starts_with("list nodes: ") && text.contains("systemctl start"), "{text}");
        assert_eq!(text.matches("No such file").count(), 1, "{text}");
    }
}

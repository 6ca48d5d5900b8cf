//! Runs podman, which runs containers on this node.

use std::time::Duration;

use causes::CommandError;
use process::Cmd;

/// The name or path of podman on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Podman {
    program: String,
}

impl Podman {
    #[must_use]
    pub(super) fn new(program: &str) -> Self {
        Self { program: program.to_owned() }
    }

    /// Runs podman and returns its stdout. Errors show `what`, and not the arguments, which may contain users' secrets.
    ///
    /// # Errors
    /// When podman cannot be started, fails, or outlives `deadline`.
    pub(super) fn run(
        &self,
        what: &str,
        arguments: &[String],
        deadline: Duration,
    ) -> Result<Vec<u8>, CommandError> {
        let text = format!("{} {what}", self.program);
        Cmd::with_text(std::iter::once(&self.program).chain(arguments), text).output(deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_returns_stdout_and_its_errors_hide_the_arguments() {
        let echo = Podman::new("echo");
        let patience = Duration::from_secs(60);
        let printed = echo.run("say", &["a b".to_owned(), "$HOME".to_owned()], patience).unwrap();
        assert_eq!(printed, b"a b $HOME\n");
        let error = Podman::new("false").run("make a pod", &["secret".to_owned()], patience);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("false make a pod: exit status: 1"), "{error}");
        assert!(!error.contains("secret"));
    }
}

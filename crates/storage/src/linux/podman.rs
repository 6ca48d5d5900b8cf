//! podman, which runs containers on this node.

use std::time::Duration;

use super::cmd::Cmd;
use crate::host::CommandError;

/// The program, as it is called on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Podman {
    program: String,
}

impl Podman {
    #[must_use]
    pub fn new(program: &str) -> Self {
        Self { program: program.to_owned() }
    }

    /// Runs it and returns what it printed. Errors name `what` it was to do: its arguments hold what users wrote.
    ///
    /// # Errors
    /// When it cannot be started, fails, or outlives `deadline`.
    pub fn run(
        &self,
        what: &str,
        arguments: &[String],
        deadline: Duration,
    ) -> Result<Vec<u8>, CommandError> {
        let shown = format!("{} {what}", self.program);
        Cmd::shown(std::iter::once(&self.program).chain(arguments), shown).output(deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_prints_is_returned_and_a_failure_names_what_it_was_to_do() {
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

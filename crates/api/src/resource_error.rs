//! The error that every status carries, and how errors are wrapped on their way into it.

use std::error::Error;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::string_enum::string_enum;

string_enum! {
    /// How likely a retry is to succeed.
    pub enum Severity {
        /// A retry will likely succeed.
        Minor = "Minor",
        /// A retry may succeed.
        Major = "Major",
        /// Nothing but a change of the object will help.
        Fatal = "Fatal",
    }
}

string_enum! {
    /// Whose error it is.
    pub enum ErrorType {
        /// The storage software or hardware.
        Internal = "Internal",
        /// The user's request.
        User = "User",
        /// The workload manager's request.
        Wlm = "WLM",
    }
}

impl Severity {
    /// The status that a workflow shows for an error of this severity; `None` for one this version does not know.
    #[must_use]
    pub fn workflow_status(&self) -> Option<&'static str> {
        match self {
            Self::Minor => Some("Running"),
            Self::Major => Some("TransientCondition"),
            Self::Fatal => Some("Error"),
            Self::Other(_) => None,
        }
    }
}

/// What went wrong, as the sites' tools read it from `status.error`.
///
/// `userMessage` is for the person who owns the job and says what to do; `debugMessage` is the whole chain of causes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceError {
    /// The chain of causes, outermost first, for administrators.
    #[serde(default)]
    #[schemars(!default)]
    pub debug_message: String,
    /// How likely a retry is to succeed.
    #[serde(default = "Severity::unsaid")]
    #[schemars(!default)]
    pub severity: Severity,
    /// Whose error it is.
    #[serde(default = "ErrorType::unsaid", rename = "type")]
    #[schemars(!default)]
    pub error_type: ErrorType,
    /// What the user should know and do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_message: Option<String>,
}

impl ResourceError {
    /// An internal error of minor severity: what an error is until somebody knows better.
    #[must_use]
    pub fn new(debug_message: impl Into<String>) -> Self {
        Self {
            debug_message: debug_message.into(),
            severity: Severity::Minor,
            error_type: ErrorType::Internal,
            user_message: None,
        }
    }

    /// Puts `cause` behind this error's text and takes over its severity, type and user message, even if that lowers them.
    #[must_use]
    pub fn caused_by(self, cause: Self) -> Self {
        Self { debug_message: join(self.debug_message, &cause.debug_message), ..cause }
    }

    /// Puts the text of a plain error and of its sources behind this error's text; nothing else changes.
    #[must_use]
    pub fn caused_by_error(mut self, cause: &(dyn Error + 'static)) -> Self {
        let mut next = Some(cause);
        while let Some(error) = next {
            self.debug_message = join(self.debug_message, &error.to_string());
            next = error.source();
        }
        self
    }

    /// Raises the severity to at least major; fatal stays fatal.
    #[must_use]
    pub fn with_major(mut self) -> Self {
        if self.severity != Severity::Fatal {
            self.severity = Severity::Major;
        }
        self
    }

    /// Makes the error fatal.
    #[must_use]
    pub fn with_fatal(mut self) -> Self {
        self.severity = Severity::Fatal;
        self
    }

    /// Says whose error it is.
    #[must_use]
    pub fn with_type(mut self, error_type: ErrorType) -> Self {
        self.error_type = error_type;
        self
    }

    /// Sets the user message unless there is one: the error nearest to the cause knows best.
    #[must_use]
    pub fn with_user_message(mut self, message: impl Into<String>) -> Self {
        if self.user_message.as_deref().is_none_or(str::is_empty) {
            self.user_message = Some(message.into());
        }
        self
    }
}

fn join(mut outer: String, inner: &str) -> String {
    if !outer.is_empty() && !inner.is_empty() {
        outer.push_str(": ");
    }
    outer.push_str(inner);
    outer
}

impl fmt::Display for ResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.debug_message)
    }
}

impl Error for ResourceError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_cause_only_adds_its_text_and_its_sources() {
        #[derive(Debug)]
        struct Mount(std::io::Error);
        impl fmt::Display for Mount {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("could not mount")
            }
        }
        impl Error for Mount {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        let error = ResourceError::new("mount failed")
            .with_major()
            .caused_by_error(&Mount(std::io::Error::other("device busy")));
        assert_eq!(error.debug_message, "mount failed: could not mount: device busy");
        assert_eq!(error.severity, Severity::Major);
    }

    #[test]
    fn wrapping_inherits_from_the_cause_even_downwards() {
        let cause = ResourceError::new("pool full")
            .with_type(ErrorType::Wlm)
            .with_user_message("ask for less");
        let outer = ResourceError::new("allocation 0")
            .with_fatal()
            .with_user_message("outer")
            .caused_by(cause);
        assert_eq!(outer.debug_message, "allocation 0: pool full");
        assert_eq!(outer.severity, Severity::Minor);
        assert_eq!(outer.error_type, ErrorType::Wlm);
        assert_eq!(outer.user_message.as_deref(), Some("ask for less"));
    }

    #[test]
    fn wrapping_drops_the_outer_user_message_when_the_cause_has_none() {
        let outer = ResourceError::new("outer")
            .with_user_message("hint")
            .caused_by(ResourceError::new("inner"));
        assert_eq!(outer.user_message, None);
        assert_eq!(outer.with_user_message("later").user_message.as_deref(), Some("later"));
    }

    #[test]
    fn major_never_lowers_fatal() {
        assert_eq!(ResourceError::new("x").with_fatal().with_major().severity, Severity::Fatal);
        assert_eq!(ResourceError::new("x").with_major().with_fatal().severity, Severity::Fatal);
    }

    #[test]
    fn user_message_is_set_once() {
        let error = ResourceError::new("x").with_user_message("first").with_user_message("second");
        assert_eq!(error.user_message.as_deref(), Some("first"));
    }

    #[test]
    fn empty_outer_text_adds_no_separator() {
        assert_eq!(
            ResourceError::new("").caused_by(ResourceError::new("inner")).debug_message,
            "inner"
        );
    }

    #[test]
    fn reads_as_upstream_writes_it() {
        let error = ResourceError::new("a").with_type(ErrorType::Wlm).with_fatal();
        let json = serde_json::to_value(&error).unwrap();
        assert_eq!(
            json,
            serde_json::json!({ "debugMessage": "a", "severity": "Fatal", "type": "WLM" })
        );
    }
}

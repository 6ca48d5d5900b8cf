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
    fn reads_as_upstream_writes_it() {
        let error = ResourceError {
            error_type: ErrorType::Wlm,
            severity: Severity::Fatal,
            ..ResourceError::new("a")
        };
        let json = serde_json::to_value(&error).unwrap();
        assert_eq!(
            json,
            serde_json::json!({ "debugMessage": "a", "severity": "Fatal", "type": "WLM" })
        );
    }
}

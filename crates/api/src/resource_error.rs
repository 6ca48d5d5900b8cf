//! `ResourceError`: the error field of a status.

use std::error::Error;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::string_enum::string_enum;

string_enum! {
    /// Chance that a retry succeeds.
    pub enum Severity {
        /// A retry will likely succeed.
        Minor = "Minor",
        /// A retry may succeed.
        Major = "Major",
        /// A retry fails until the object is changed.
        Fatal = "Fatal",
    }
}

string_enum! {
    /// Party at fault.
    pub enum ErrorType {
        /// The storage software or hardware is at fault.
        Internal = "Internal",
        /// The user's request is at fault.
        User = "User",
        /// The workload manager's request is at fault.
        Wlm = "WLM",
    }
}

/// The fault of an object, as the sites' tools read it from `status.error`.
///
/// `userMessage` tells the job's owner what to do; `debugMessage` is the whole chain of causes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceError {
    /// Chain of causes, outermost first, for administrators.
    #[serde(default)]
    #[schemars(!default)]
    pub debug_message: String,
    /// Chance that a retry succeeds: Minor (likely), Major (possible) or Fatal (none until the object is changed).
    #[serde(default = "Severity::absent")]
    #[schemars(!default)]
    pub severity: Severity,
    /// Party at fault: Internal (storage software or hardware), User or WLM (workload manager).
    #[serde(default = "ErrorType::absent", rename = "type")]
    #[schemars(!default)]
    pub error_type: ErrorType,
    /// Explanation and remedy for the job's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_message: Option<String>,
}

impl ResourceError {
    /// Returns an internal error of minor severity, the defaults for an error of unknown kind.
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
    fn an_error_is_written_as_upstream_writes_it() {
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

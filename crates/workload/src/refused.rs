//! Requests that the API refused or did not answer.

use thiserror::Error;

/// A request that failed, with the API's error.
#[derive(Debug, Error)]
#[error("{what}")]
pub struct Refused {
    /// The request, such as `create the workflow w`.
    pub what: String,
    #[source]
    pub source: kube::Error,
}

impl Refused {
    pub(crate) fn new(what: impl Into<String>, source: kube::Error) -> Self {
        Self { what: what.into(), source }
    }

    /// Returns the API's answer; `None` if it did not answer.
    #[must_use]
    pub fn answer(&self) -> Option<&kube::core::Status> {
        match &self.source {
            kube::Error::Api(status) => Some(status),
            _ => None,
        }
    }

    /// Returns whether a validating webhook refused the directives (and not the API the caller).
    #[must_use]
    pub fn is_about_directives(&self) -> bool {
        self.answer().is_some_and(|status| {
            matches!(status.code, 403 | 422) && status.message.contains("DW directive")
        })
    }

    /// Returns whether another client changed the object in the meantime.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.answer().is_some_and(|status| status.code == 409)
    }
}

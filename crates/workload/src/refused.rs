//! What the API refused, in the words of who asked.

use thiserror::Error;

/// What the API did not do, and why.
#[derive(Debug, Error)]
#[error("{what}")]
pub struct Refused {
    /// Such as `create the workflow w`.
    pub what: String,
    #[source]
    pub source: kube::Error,
}

impl Refused {
    pub(crate) fn new(what: impl Into<String>, source: kube::Error) -> Self {
        Self { what: what.into(), source }
    }

    /// The API's own answer; `None` when it gave none.
    #[must_use]
    pub fn answer(&self) -> Option<&kube::core::Status> {
        match &self.source {
            kube::Error::Api(status) => Some(status),
            _ => None,
        }
    }

    /// Whether a validating webhook refuses the directives, and not the API who asks.
    #[must_use]
    pub fn is_about_directives(&self) -> bool {
        self.answer().is_some_and(|status| {
            matches!(status.code, 403 | 422) && status.message.contains("DW directive")
        })
    }

    /// Whether somebody else changed the object in the meantime.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.answer().is_some_and(|status| status.code == 409)
    }
}

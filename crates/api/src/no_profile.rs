//! Why an NnfStorageProfile cannot be had.

/// Why there is no profile for an object, with a text for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoProfile {
    /// The profile does not exist, or cannot be used.
    Missing(String),
    /// The API does not let the program read it: it may exist.
    Forbidden(String),
}

impl NoProfile {
    /// The API has no profile of this name.
    pub fn missing(namespace: &str, name: &str) -> Self {
        Self::Missing(format!(
            "NnfStorageProfile {namespace}/{name} does not exist: create it, with data.pinned true"
        ))
    }

    /// The API refused to read the profile, with this message, because the program has no right to `verb` profiles.
    pub fn forbidden(namespace: &str, name: &str, verb: &str, message: &str) -> Self {
        Self::Forbidden(format!(
            "NnfStorageProfile {namespace}/{name} cannot be read: {message}: grant this agent {verb} on nnfstorageprofiles.nnf.cray.hpe.com"
        ))
    }

    /// The text for the user.
    pub fn text(&self) -> &str {
        let (Self::Missing(text) | Self::Forbidden(text)) = self;
        text
    }
}

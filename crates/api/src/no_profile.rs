//! `NoProfile`: the reason why an NnfStorageProfile cannot be read.

/// The reason why an object has no profile, with a text for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoProfile {
    /// The profile does not exist, or cannot be used.
    Missing(String),
    /// The API does not let the program read the profile; it may exist.
    Forbidden(String),
}

impl NoProfile {
    /// Returns the error for a profile that the API does not have.
    pub fn not_found(namespace: &str, name: &str) -> Self {
        Self::Missing(format!(
            "NnfStorageProfile {namespace}/{name} does not exist: create it, with data.pinned true"
        ))
    }

    /// Returns the error for a profile that the API refused to read with `message`, because the program lacks the
    /// right `verb` on profiles.
    pub fn forbidden(namespace: &str, name: &str, verb: &str, message: &str) -> Self {
        Self::Forbidden(format!(
            "NnfStorageProfile {namespace}/{name} cannot be read: {message}: grant this agent {verb} on nnfstorageprofiles.nnf.cray.hpe.com"
        ))
    }

    /// Returns the text for the user.
    pub fn text(&self) -> &str {
        let (Self::Missing(text) | Self::Forbidden(text)) = self;
        text
    }
}

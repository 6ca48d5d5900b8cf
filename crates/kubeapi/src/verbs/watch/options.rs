//! The options of a watch, and the revision at which it begins.

use crate::status::Status;
use crate::verbs::list::{Selection, invalid_match};
use std::time::Duration;

/// `metav1.ListOptions` of a watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchOptions {
    pub(crate) selection: Selection,
    pub(crate) revision: Option<String>,
    pub(crate) revision_match: Option<String>,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial: Option<bool>,
    pub(crate) timeout: Option<Duration>,
}

/// The beginning of a watch.
pub(super) enum Start {
    /// Begins with the objects that exist.
    Now {
        initial: bool,
        /// Revision that the client has seen already.
        least: u64,
    },
    After(u64),
}

impl WatchOptions {
    /// Returns the beginning of the watch; 400 or 422 for contradictory options.
    pub(super) fn start(&self) -> Result<Start, Status> {
        let revision = self.revision.as_deref().map(Status::read_revision).transpose()?;
        if !matches!(
            (self.revision_match.as_deref(), self.send_initial),
            (None, None) | (Some("NotOlderThan"), Some(_))
        ) {
            return Err(invalid_match("a watch takes NotOlderThan with sendInitialEvents"));
        }
        Ok(match (revision, self.send_initial) {
            (revision, Some(true)) => Start::Now { initial: true, least: revision.unwrap_or(0) },
            (None | Some(0), initial) => Start::Now { initial: initial.is_none(), least: 0 },
            (Some(revision), _) => Start::After(revision),
        })
    }
}

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio::sync::Notify;

use super::Audience;
use crate::object::Version;

/// What a node was told last about one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    pub(super) version: Version,
    /// resourceVersion of the profile, or why there was none.
    pub(super) profile: Result<String, String>,
}

/// One session's view of its objects.
#[derive(Debug)]
pub(super) struct NodeQueue {
    pub(super) epoch: u64,
    pub(super) audience: Audience,
    pub(super) told: HashMap<String, Told>,
    /// Names to look at again.
    pub(super) dirty: BTreeSet<String>,
    /// Names that existed when the session began and are not settled yet; Synced waits for them.
    pub(super) untold: BTreeSet<String>,
    pub(super) synced: bool,
    pub(super) bell: Arc<Notify>,
}

impl NodeQueue {
    pub(super) fn new(epoch: u64, audience: Audience) -> Self {
        Self {
            epoch,
            audience,
            told: HashMap::new(),
            dirty: BTreeSet::new(),
            untold: BTreeSet::new(),
            synced: false,
            bell: Arc::new(Notify::new()),
        }
    }

    pub(super) fn seed(&mut self, names: BTreeSet<String>) {
        if self.audience == Audience::Rabbit {
            return;
        }
        self.dirty.clone_from(&names);
        self.untold = names;
        self.bell.notify_one();
    }

    pub(super) fn touch(&mut self, name: &str) {
        if self.audience == Audience::Rabbit {
            return;
        }
        self.dirty.insert(name.to_owned());
        self.bell.notify_one();
    }
}

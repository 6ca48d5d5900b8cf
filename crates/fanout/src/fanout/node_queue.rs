use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Notify;

use super::{Audience, Lack};
use crate::object::{Version, precedes};

/// What a node was told last about one object, and what it answered.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) version: Version,
    /// resourceVersion of the profile, or why there was none.
    pub(super) profile: Result<String, Lack>,
    /// The status that the node reported since; None before it did, and once it is to be asked again.
    pub(super) answer: Option<Value>,
    /// The object's status does not say what the node reported: the node is told once more, and reports what it finds.
    pub(super) contradicted: bool,
}

impl Told {
    /// Whether the node knows all of this.
    pub(super) fn covers(&self, news: &Self) -> bool {
        !self.contradicted && self.version == news.version && self.profile == news.profile
    }
}

/// One session's view of its objects.
#[derive(Debug)]
pub(super) struct NodeQueue {
    pub(super) epoch: u64,
    pub(super) audience: Audience,
    /// The API was not asked yet what the node's objects are: nothing is told.
    pub(super) newcomer: bool,
    /// resourceVersion of the list by which it was let in.
    since: String,
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
            newcomer: audience == Audience::Compute,
            since: String::new(),
            told: HashMap::new(),
            dirty: BTreeSet::new(),
            untold: BTreeSet::new(),
            synced: false,
            bell: Arc::new(Notify::new()),
        }
    }

    /// Begins with the objects that are known, which are no fewer than a list at `version` had.
    pub(super) fn admit(&mut self, names: BTreeSet<String>, version: &str) {
        self.newcomer = false;
        version.clone_into(&mut self.since);
        self.seed(names);
    }

    /// Whether an object of this name and resourceVersion had come and gone before the session was let in, and a watch that
    /// is behind tells of it now.
    pub(super) fn is_history(&self, name: &str, resource_version: &str) -> bool {
        let new = !self.told.contains_key(name) && !self.untold.contains(name);
        new && (resource_version == self.since || precedes(resource_version, &self.since))
    }

    /// All objects were listed: there is no history to come.
    pub(super) fn relisted(&mut self) {
        self.since.clear();
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

//! Objects that cannot be read and never could: each is there all the same, and what it says is not known.

use std::collections::{BTreeMap, BTreeSet};

use api::{WorkflowState, names::label};
use controller::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::{Key, Wake, World, persistent::persistent_of_metadata, place};
use crate::instance::is_made;

impl World {
    /// Takes in which workflows and which Servers cannot be read.
    pub(super) fn know_unreadable(&mut self) -> Vec<Wake> {
        let mut wakes = self.know_workflows();
        wakes.extend(self.know_servers());
        wakes
    }

    /// The storage of such workflows, and what they use of others', waits for them alone.
    fn know_workflows(&mut self) -> Vec<Wake> {
        let unread = self.workflows.unreadable();
        let unread = unread.map(|one| (place_of(one), one.uid.clone().unwrap_or_default()));
        let now = unread.filter(|(at, _)| self.workflows.get(&at.0, &at.1).is_none());
        let now: BTreeMap<ObjectKey, String> = now.collect();
        let before = std::mem::replace(&mut self.site.unreadable, now.clone());
        if before == now {
            return Vec::new();
        }
        let workflows = before.into_keys().chain(now.into_keys()).map(Key::Workflow);
        let persistent = self.persistent.iter().map(|one| Key::Persistent(place(&**one)));
        workflows.chain(persistent).map(Wake::Key).collect()
    }

    /// Such Servers may have promised anything, on any rabbit.
    fn know_servers(&mut self) -> Vec<Wake> {
        let unread = self.servers.unreadable().map(|one| (place_of(one), one));
        let unread = unread.filter(|(at, _)| self.servers.get(&at.0, &at.1).is_none());
        let unread: Vec<(ObjectKey, &ObjectMeta)> = unread.collect();
        let doubts = unread.iter().filter(|(_, one)| self.may_promise(one));
        let doubts = doubts.map(|(at, one)| (at.clone(), one.creation_timestamp.clone())).collect();
        let now: BTreeSet<ObjectKey> = unread.into_iter().map(|(at, _)| at).collect();
        self.site.unread_servers = now;
        if self.site.ledger.set_unreadable(doubts) { vec![Wake::Failing] } else { Vec::new() }
    }

    /// Whether a Servers may promise more than what was made of it: it may until its storage was made to its end, or is to go.
    fn may_promise(&self, servers: &ObjectMeta) -> bool {
        if servers.deletion_timestamp.is_some() {
            return false;
        }
        if let Some(at) = persistent_of_metadata(servers) {
            return !self.persistent.get(&at.0, &at.1).is_some_and(|one| is_made(one));
        }
        let text = |key| servers.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
        let at = text(label::WORKFLOW_NAMESPACE).zip(text(label::WORKFLOW_NAME));
        let workflow = at.and_then(|at| self.workflows.get(&at.0, &at.1));
        let workflow = workflow.filter(|one| one.uid() == text(label::WORKFLOW_UID));
        let state = workflow.and_then(|one| one.status.as_ref()?.state.clone());
        matches!(state, None | Some(WorkflowState::Proposal | WorkflowState::Setup))
    }
}

fn place_of(metadata: &ObjectMeta) -> ObjectKey {
    [&metadata.namespace, &metadata.name].map(|one| one.clone().unwrap_or_default()).into()
}

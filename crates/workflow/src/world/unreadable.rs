//! Objects that were never readable: they exist, but their content is unknown.

use std::collections::{BTreeMap, BTreeSet};

use api::{WorkflowState, names::label};
use controller::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::{Key, Wake, World, object_key, persistent::persistent_of_metadata};
use crate::objects::instance::is_made;

impl World {
    /// Records which workflows and Servers cannot be read.
    pub(super) fn update_unreadable(&mut self) -> Vec<Wake> {
        let mut wakes = self.update_unreadable_workflows();
        wakes.extend(self.update_unreadable_servers());
        wakes
    }

    /// Records which workflows cannot be read. After a change, wakes these workflows and all persistent storages: the
    /// plan of a persistent storage keeps the consumer entries and mounts of an unreadable workflow, because the
    /// workflow may still use the storage.
    fn update_unreadable_workflows(&mut self) -> Vec<Wake> {
        let unread = self.workflows.unreadable();
        let unread =
            unread.map(|metadata| (place_of(metadata), metadata.uid.clone().unwrap_or_default()));
        let now = unread.filter(|(at, _)| self.workflows.get(&at.0, &at.1).is_none());
        let now: BTreeMap<ObjectKey, String> = now.collect();
        let before = std::mem::replace(&mut self.site.unreadable, now.clone());
        if before == now {
            return Vec::new();
        }
        let workflows = before.into_keys().chain(now.into_keys()).map(Key::Workflow);
        let persistent =
            self.persistent.iter().map(|instance| Key::Persistent(object_key(&**instance)));
        workflows.chain(persistent).map(Wake::Key).collect()
    }

    /// Records unreadable Servers, which may reserve any number of bytes on any rabbit.
    fn update_unreadable_servers(&mut self) -> Vec<Wake> {
        let unread = self.servers.unreadable().map(|metadata| (place_of(metadata), metadata));
        let unread = unread.filter(|(at, _)| self.servers.get(&at.0, &at.1).is_none());
        let unread: Vec<(ObjectKey, &ObjectMeta)> = unread.collect();
        let uncertain = unread.iter().filter(|(_, servers)| self.may_reserve(servers));
        let uncertain = uncertain
            .map(|(at, metadata)| (at.clone(), metadata.creation_timestamp.clone()))
            .collect();
        let now: BTreeSet<ObjectKey> = unread.into_iter().map(|(at, _)| at).collect();
        self.site.unread_servers = now;
        if self.site.reservations.set_unreadable(uncertain) {
            vec![Wake::Failing]
        } else {
            Vec::new()
        }
    }

    /// Returns true if a Servers may reserve more bytes than were allocated for it: this is so until its storage
    /// is complete or removed.
    fn may_reserve(&self, servers: &ObjectMeta) -> bool {
        if servers.deletion_timestamp.is_some() {
            return false;
        }
        if let Some(at) = persistent_of_metadata(servers) {
            return !self.persistent.get(&at.0, &at.1).is_some_and(|instance| is_made(instance));
        }
        let text = |key| servers.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
        let at = text(label::WORKFLOW_NAMESPACE).zip(text(label::WORKFLOW_NAME));
        let workflow = at.and_then(|at| self.workflows.get(&at.0, &at.1));
        let workflow = workflow.filter(|workflow| workflow.uid() == text(label::WORKFLOW_UID));
        let state = workflow.and_then(|workflow| workflow.status.as_ref()?.state.clone());
        matches!(state, None | Some(WorkflowState::Proposal | WorkflowState::Setup))
    }
}

fn place_of(metadata: &ObjectMeta) -> ObjectKey {
    [&metadata.namespace, &metadata.name].map(|part| part.clone().unwrap_or_default()).into()
}

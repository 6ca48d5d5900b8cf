//! System storages, which no job owns, and their objects.

use std::{collections::BTreeMap, sync::Arc};

use api::{NnfStorageProfile, NnfSystemStorage, RabbitLabels, Servers, names::label};
use controller::{Change, ObjectKey, Store};
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::ResourceExt;

use super::{Key, Wake, WatchedKind, World, groups::label_of, object_key};
use crate::{
    names::{system_storage_key, system_storage_object_name},
    objects::{system_storage::SystemStorageView, view::Group},
};

impl World {
    /// Returns a system storage with all of its objects.
    #[must_use]
    pub fn system_storage(&self, at: &ObjectKey) -> Option<SystemStorageView<'_>> {
        let object = self.system_storages.get(&at.0, &at.1)?.clone();
        let mut groups = self.system_storage_groups(at);
        let named = self.servers.get(&at.0, &system_storage_object_name(&at.1)).cloned();
        let is_own = |servers: &Arc<Servers>| {
            system_storage_key(&**servers).as_ref() == Some(at)
                && servers.label(label::OWNER_UID) == object.metadata.uid.as_deref()
        };
        let (own, foreign) = match named {
            Some(servers) if is_own(&servers) => (Some(servers), None),
            foreign => (None, foreign),
        };
        let uid = own.as_ref().and_then(|servers| servers.uid()).unwrap_or_default();
        let storage = Group { servers: own, ..groups.remove(&uid).unwrap_or_default() };
        let (namespace, name) = object.spec.system_configuration();
        Some(SystemStorageView {
            site: &self.site,
            system: self.systems.get(&namespace, &name).cloned(),
            profile: self.profile_of(&object.spec.storage_profile),
            storage,
            foreign,
            leftovers: groups.into_values().collect(),
            refused: self.refused_again(&Key::SystemStorage(at.clone())),
            object,
        })
    }

    /// Returns the objects on nodes for a system storage of this name, by the uid of their Servers.
    #[must_use]
    pub fn system_storage_groups(&self, at: &ObjectKey) -> BTreeMap<String, Group> {
        let is_of = |metadata: &ObjectMeta| {
            let part = |key| label_of(metadata, key);
            let named = part(label::SYSTEM_STORAGE_NAMESPACE).zip(part(label::SYSTEM_STORAGE_NAME));
            named.as_ref() == Some(at)
        };
        let owner =
            |metadata: &ObjectMeta| label_of(metadata, label::OWNER_UID).unwrap_or_default();
        let children = self.system_storage_children.get(at);
        self.groups_by(children, is_of, owner, |servers| servers.uid().unwrap_or_default())
    }

    fn profile_of(&self, reference: &ObjectReference) -> Option<Arc<NnfStorageProfile>> {
        let (namespace, name) = (reference.namespace.as_ref()?, reference.name.as_ref()?);
        self.profiles.get(namespace, name).cloned()
    }

    /// Returns the keys of all system storages.
    pub(super) fn system_storage_keys(&self) -> impl Iterator<Item = Key> {
        let existing = self.system_storages.iter().map(|storage| object_key(&**storage));
        existing.chain(self.system_storage_children.keys().cloned()).map(Key::SystemStorage)
    }

    /// Wakes all system storages: a rabbit, a compute or the SystemConfiguration changed.
    pub(super) fn wake_system_storages(&self) -> Vec<Wake> {
        self.system_storage_keys().map(Wake::Key).collect()
    }

    /// Wakes the system storages that name a profile.
    pub(super) fn wake_system_storages_with_profile(
        &self,
        profile: Option<&Arc<NnfStorageProfile>>,
    ) -> Vec<Wake> {
        let Some((namespace, name)) = profile.map(|profile| object_key(&**profile)) else {
            return Vec::new();
        };
        let names_profile = |storage: &&Arc<NnfSystemStorage>| {
            let reference = &storage.spec.storage_profile;
            reference.namespace.as_ref() == Some(&namespace)
                && reference.name.as_ref() == Some(&name)
        };
        let storages = self.system_storages.iter().filter(names_profile);
        storages.map(|storage| Wake::Key(Key::SystemStorage(object_key(&**storage)))).collect()
    }
}

impl WatchedKind for NnfSystemStorage {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.system_storages
    }

    fn on_change(_: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let at = change.object().map(|object| object_key(&**object));
        at.map(|at| Wake::Key(Key::SystemStorage(at))).into_iter().collect()
    }
}

//! Groups storage objects by the directive or the Servers that they belong to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::Servers;
use controller::{Object, ObjectKey, Store};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{World, children::Children};
use crate::objects::view::Group;

impl World {
    /// Groups the objects of `children`, and adds the unreadable objects that `is_of` accepts.
    pub(super) fn groups_by<G: Ord>(
        &self,
        children: Option<&Children>,
        is_of: impl Fn(&ObjectMeta) -> bool,
        group: impl Fn(&ObjectMeta) -> G,
        group_of_servers: impl Fn(&Servers) -> G,
    ) -> BTreeMap<G, Group> {
        let mut groups: BTreeMap<G, Group> = BTreeMap::new();
        for metadata in self.unreadable_storage().filter(|metadata| is_of(metadata)) {
            let at =
                [&metadata.namespace, &metadata.name].map(|part| part.clone().unwrap_or_default());
            groups.entry(group(metadata)).or_default().unreadable.insert(at.into());
        }
        let Some(children) = children else { return groups };
        for (at, block) in objects_with_keys(&children.blocks, &self.blocks) {
            groups
                .entry(group(&block.metadata))
                .or_default()
                .blocks
                .insert(at.clone(), block.clone());
        }
        for (at, storage) in objects_with_keys(&children.file_systems, &self.file_systems) {
            groups
                .entry(group(&storage.metadata))
                .or_default()
                .file_systems
                .insert(at.clone(), storage.clone());
        }
        for (at, mount) in objects_with_keys(&children.mounts, &self.mounts) {
            groups
                .entry(group(&mount.metadata))
                .or_default()
                .mounts
                .insert(at.clone(), mount.clone());
        }
        for (at, mgt) in objects_with_keys(&children.mgts, &self.mgts) {
            groups.entry(group(&mgt.metadata)).or_default().mgts.insert(at.clone(), mgt.clone());
        }
        for (_, servers) in objects_with_keys(&children.servers, &self.servers) {
            let group = groups.entry(group_of_servers(servers)).or_default();
            group.servers = Some(servers.clone());
            self.site.add_mgts_of(servers, group);
        }
        groups
    }

    /// Returns the metadata of the unreadable objects in nodes' namespaces.
    fn unreadable_storage(&self) -> impl Iterator<Item = &ObjectMeta> {
        let blocks = self.blocks.unreadable().chain(self.file_systems.unreadable());
        blocks.chain(self.mounts.unreadable()).chain(self.mgts.unreadable())
    }
}

/// Returns the objects of a store that have these keys.
fn objects_with_keys<'a, K: Object>(
    keys: &'a BTreeSet<ObjectKey>,
    store: &'a Store<K>,
) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<K>)> {
    keys.iter().filter_map(|at| Some((at, store.get(&at.0, &at.1)?)))
}

pub(super) fn label_of(metadata: &ObjectMeta, key: &str) -> Option<String> {
    metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned()
}

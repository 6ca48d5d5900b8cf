//! Objects that belong to one workflow.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{RabbitLabels, names::label};
use controller::{Change, Object, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::{Key, Wake, World, groups::label_of, object_key, persistent, workflow_of};
use crate::{
    limits::Used,
    names::{directive_object_name, is_ours, persistent_key, system_storage_key},
    objects::view::{DirectiveView, Group, View},
};

/// Keys of a workflow's objects, except objects whose names follow from the workflow's name.
#[derive(Clone, Debug, Default)]
pub(super) struct Children {
    pub(super) servers: BTreeSet<ObjectKey>,
    pub(super) blocks: BTreeSet<ObjectKey>,
    pub(super) file_systems: BTreeSet<ObjectKey>,
    pub(super) mounts: BTreeSet<ObjectKey>,
    pub(super) mgts: BTreeSet<ObjectKey>,
    pub(super) on_rabbits: BTreeSet<ObjectKey>,
    pub(super) jobs: BTreeSet<ObjectKey>,
    pub(super) pods: BTreeSet<ObjectKey>,
    pub(super) config_maps: BTreeSet<ObjectKey>,
    pub(super) volumes: BTreeSet<ObjectKey>,
    pub(super) volume_claims: BTreeSet<ObjectKey>,
    pub(super) movements: BTreeSet<ObjectKey>,
    /// Secrets that the engine created, or found to exist. Forgotten together with the workflow's other objects.
    pub(super) keys: BTreeSet<ObjectKey>,
}

impl Children {
    fn is_empty(&self) -> bool {
        self.servers.is_empty()
            && self.blocks.is_empty()
            && self.file_systems.is_empty()
            && self.mounts.is_empty()
            && self.mgts.is_empty()
            && self.on_rabbits.is_empty()
            && self.jobs.is_empty()
            && self.pods.is_empty()
            && self.config_maps.is_empty()
            && self.volumes.is_empty()
            && self.volume_claims.is_empty()
            && self.movements.is_empty()
    }
}

impl World {
    /// Returns a workflow with all of its objects.
    #[must_use]
    pub fn view(&self, at: &ObjectKey) -> Option<View<'_>> {
        self.view_knowing(at, None)
    }

    /// Returns a workflow with all of its objects. For one persistent storage the caller passes the objects
    /// (`known`), so that they are collected only once for all users of the storage.
    pub(super) fn view_knowing(
        &self,
        at @ (namespace, name): &ObjectKey,
        mut known: Option<(&persistent::Known<'_>, persistent::Mounts)>,
    ) -> Option<View<'_>> {
        let workflow = self.workflows.get(namespace, name)?.clone();
        let is_of_instance = known.is_some();
        let uid = workflow.uid().unwrap_or_default();
        let mut groups = self.groups(at);
        let directive = |index: usize| {
            let object_name = directive_object_name(&workflow, index);
            let known = known.take_if(|(known, _)| known.is_of(&workflow, index));
            if let Some((named, storage)) = self.named_storage(&workflow, index, known) {
                let breakdown = if_owned_by(self.breakdowns.get(namespace, &object_name), &uid);
                return DirectiveView {
                    breakdown,
                    storage,
                    persistent: Some(named),
                    ..DirectiveView::default()
                };
            }
            let mut storage = groups.remove(&(uid.clone(), index.to_string())).unwrap_or_default();
            storage.servers = if_owned_by(self.servers.get(namespace, &object_name), &uid);
            storage.profile = if_owned_by(self.profiles.get(namespace, &object_name), &uid);
            let breakdown = if_owned_by(self.breakdowns.get(namespace, &object_name), &uid);
            let containers = self.containers(&workflow, index);
            let copies = self.copies(&workflow, index);
            DirectiveView { breakdown, storage, persistent: None, containers, copies }
        };
        let directives = (0..workflow.spec.directives.len()).map(directive).collect();
        Some(View {
            now: Timestamp::default(),
            site: &self.site,
            computes: if_owned_by(self.computes.get(namespace, name), &uid),
            directives,
            leftovers: groups.into_values().collect(),
            orphans: self.orphans(at, &uid),
            refused: self.refused_again(&Key::Workflow(at.clone())),
            used: if is_of_instance { Used::default() } else { self.used_by_others(&workflow) },
            workflow,
        })
    }

    /// Returns the storage objects that name a workflow, by the workflow's uid and the directive's index.
    #[must_use]
    pub fn groups(&self, workflow: &ObjectKey) -> BTreeMap<(String, String), Group> {
        let is_of = |metadata: &ObjectMeta| {
            let named_workflow = label_of(metadata, label::WORKFLOW_NAMESPACE)
                .zip(label_of(metadata, label::WORKFLOW_NAME));
            named_workflow.as_ref() == Some(workflow)
                && persistent::persistent_of_metadata(metadata).is_none()
        };
        let children = self.children.get(workflow);
        self.groups_by(children, is_of, storage_of, |servers| storage_of(&servers.metadata))
    }

    /// Takes in an object of a storage of Warren; objects of other controllers wake no key.
    pub(super) fn take_own_child<K: Object>(
        &mut self,
        change: &Change<K>,
        set: fn(&mut Children) -> &mut BTreeSet<ObjectKey>,
    ) -> Vec<Wake> {
        self.take_child_if(is_ours, change, set)
    }

    /// Takes in an object as long as `is_ours` accepts it. Persistent storage is adopted from the Go controllers and
    /// released again, so the object's state before the change may be ours and the state after it not, or the reverse.
    pub(super) fn take_child_if<K: Object>(
        &mut self,
        is_ours: impl Fn(&K) -> bool,
        change: &Change<K>,
        set: fn(&mut Children) -> &mut BTreeSet<ObjectKey>,
    ) -> Vec<Wake> {
        let ours =
            |object: &Option<Arc<K>>| object.as_ref().filter(|object| is_ours(object)).cloned();
        self.take_child(&Change { old: ours(&change.old), new: ours(&change.new) }, set)
    }

    /// Takes in an object of a workflow, of persistent storage or of a system storage, and wakes its owner.
    pub(super) fn take_child<K: Object>(
        &mut self,
        change: &Change<K>,
        set: fn(&mut Children) -> &mut BTreeSet<ObjectKey>,
    ) -> Vec<Wake> {
        let mut wakes = Vec::new();
        for (object, is_there) in [(&change.old, false), (&change.new, true)] {
            let Some(object) = object else { continue };
            let system_storage = system_storage_key(&**object);
            let instance = persistent_key(&**object);
            let whose = system_storage.clone().or_else(|| instance.clone());
            let Some(whose) = whose.or_else(|| workflow_of(&**object)) else { continue };
            let all = match (&system_storage, &instance) {
                (Some(_), _) => &mut self.system_storage_children,
                (None, Some(_)) => &mut self.instance_children,
                (None, None) => &mut self.children,
            };
            let children = all.entry(whose.clone()).or_default();
            if is_there {
                set(children).insert(object_key(&**object));
            } else {
                set(children).remove(&object_key(&**object));
            }
            if children.is_empty() {
                all.remove(&whose);
            }
            if let Some(system_storage) = system_storage {
                wakes.push(Wake::Key(Key::SystemStorage(system_storage)));
                continue;
            }
            match instance {
                // A mount concerns only its own workflow.
                Some(instance) if K::kind(&()) == "ClientMount" => {
                    let workflow = workflow_of(&**object).map(Key::Workflow);
                    let keys = workflow.into_iter().chain([Key::Persistent(instance)]);
                    wakes.extend(keys.map(Wake::Key));
                }
                Some(instance) => wakes.extend(self.wake_instance(&instance)),
                None => wakes.push(Wake::Key(Key::Workflow(whose))),
            }
        }
        wakes
    }
}

/// Returns the object if it belongs to the workflow with this uid.
pub(super) fn if_owned_by<K: Object>(object: Option<&Arc<K>>, uid: &str) -> Option<Arc<K>> {
    object.filter(|object| object.label(label::WORKFLOW_UID) == Some(uid)).cloned()
}

fn storage_of(metadata: &ObjectMeta) -> (String, String) {
    let text = |key| label_of(metadata, key).unwrap_or_default();
    (text(label::WORKFLOW_UID), text(label::DIRECTIVE_INDEX))
}

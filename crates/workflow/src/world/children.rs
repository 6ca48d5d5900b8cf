//! What belongs to one workflow.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{RabbitLabels, names::label};
use controller::{Change, Object, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::{Key, Wake, World, groups::label_of, persistent, place, workflow_of};
use crate::{
    names::{is_ours, of_directive, persistent_of},
    view::{DirectiveView, Group, View},
};

/// What a workflow has outside of its fixed names.
#[derive(Debug, Default)]
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
    /// Secrets that this engine made, or found to be there. Forgotten with all else of the workflow.
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
    }
}

impl World {
    /// A workflow with everything that is its.
    #[must_use]
    pub fn view(&self, at: &ObjectKey) -> Option<View<'_>> {
        self.view_knowing(at, None)
    }

    /// The same, from what is known of a persistent storage that it names.
    pub(super) fn view_knowing(
        &self,
        at @ (namespace, name): &ObjectKey,
        mut known: Option<(&persistent::Known<'_>, persistent::Mounts)>,
    ) -> Option<View<'_>> {
        let workflow = self.workflows.get(namespace, name)?.clone();
        let uid = workflow.uid().unwrap_or_default();
        let mut groups = self.groups(at);
        let directive = |index: usize| {
            let of = of_directive(&workflow, index);
            let known = known.take_if(|(known, _)| known.is_of(&workflow, index));
            if let Some((named, storage)) = self.named(&workflow, index, known) {
                let breakdown = own(self.breakdowns.get(namespace, &of), &uid);
                return DirectiveView {
                    breakdown,
                    storage,
                    persistent: Some(named),
                    ..DirectiveView::default()
                };
            }
            let mut storage = groups.remove(&(uid.clone(), index.to_string())).unwrap_or_default();
            storage.servers = own(self.servers.get(namespace, &of), &uid);
            storage.profile = own(self.profiles.get(namespace, &of), &uid);
            let breakdown = own(self.breakdowns.get(namespace, &of), &uid);
            let containers = self.containers(&workflow, index);
            DirectiveView { breakdown, storage, persistent: None, containers }
        };
        let directives = (0..workflow.spec.directives.len()).map(directive).collect();
        Some(View {
            now: Timestamp::default(),
            site: &self.site,
            computes: own(self.computes.get(namespace, name), &uid),
            directives,
            leftovers: groups.into_values().collect(),
            left: self.left(at, &uid),
            refused: self.refused_again(at),
            workflow,
        })
    }

    /// The storage that names a workflow, by the workflow's uid and by directive.
    #[must_use]
    pub fn groups(&self, workflow: &ObjectKey) -> BTreeMap<(String, String), Group> {
        let is_of = |metadata: &ObjectMeta| {
            let of = label_of(metadata, label::WORKFLOW_NAMESPACE)
                .zip(label_of(metadata, label::WORKFLOW_NAME));
            of.as_ref() == Some(workflow) && persistent::persistent_of_metadata(metadata).is_none()
        };
        let children = self.children.get(workflow);
        self.groups_by(children, is_of, storage_of, |servers| storage_of(&servers.metadata))
    }

    /// Takes in an object of Warren's; those of other controllers wake nobody.
    pub(super) fn own_child<K: Object>(
        &mut self,
        change: &Change<K>,
        set: fn(&mut Children) -> &mut BTreeSet<ObjectKey>,
    ) -> Vec<Wake> {
        let is_ours = change.object().is_some_and(|object| is_ours(&**object));
        if is_ours { self.child(change, set) } else { Vec::new() }
    }

    /// Takes in an object of a workflow or of persistent storage, and wakes what it belongs to.
    pub(super) fn child<K: Object>(
        &mut self,
        change: &Change<K>,
        set: fn(&mut Children) -> &mut BTreeSet<ObjectKey>,
    ) -> Vec<Wake> {
        let mut wakes = Vec::new();
        for (object, is_there) in [(&change.old, false), (&change.new, true)] {
            let Some(object) = object else { continue };
            let instance = persistent_of(&**object);
            let Some(whose) = instance.clone().or_else(|| workflow_of(&**object)) else { continue };
            let all =
                if instance.is_some() { &mut self.instance_children } else { &mut self.children };
            let children = all.entry(whose.clone()).or_default();
            if is_there {
                set(children).insert(place(&**object));
            } else {
                set(children).remove(&place(&**object));
            }
            if children.is_empty() {
                all.remove(&whose);
            }
            match instance {
                // A mount concerns its own workflow alone.
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

/// The object, if it belongs to the workflow of this uid.
pub(super) fn own<K: Object>(object: Option<&Arc<K>>, uid: &str) -> Option<Arc<K>> {
    object.filter(|one| one.label(label::WORKFLOW_UID) == Some(uid)).cloned()
}

fn storage_of(metadata: &ObjectMeta) -> (String, String) {
    let text = |key| label_of(metadata, key).unwrap_or_default();
    (text(label::WORKFLOW_UID), text(label::DIRECTIVE_INDEX))
}

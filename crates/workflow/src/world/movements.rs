//! Objects of the copies of workflows.

use std::{collections::BTreeMap, sync::Arc};

use api::{NnfDataMovement, NnfDataMovementProfile, Workflow, names::label};
use controller::{Change, Store};
use kube::ResourceExt;

use super::{
    Wake, WatchedKind, World,
    children::{Children, if_owned_by},
    object_key, take_profile, workflow_of,
};
use crate::{names::directive_object_name, objects::view::Copies};

impl World {
    /// Returns the objects of a directive's copies.
    pub(super) fn copies(&self, workflow: &Workflow, index: usize) -> Copies {
        let (namespace, name) = object_key(workflow);
        let uid = workflow.uid().unwrap_or_default();
        let profile = directive_object_name(workflow, index);
        let has_own_labels = |labels: &BTreeMap<String, String>| {
            labels.get(label::WORKFLOW_UID) == Some(&uid)
                && labels.get(label::DIRECTIVE_INDEX) == Some(&index.to_string())
        };
        let mut unreadable = self.movements.unreadable();
        let has_unreadable =
            unreadable.any(|metadata| metadata.labels.as_ref().is_some_and(&has_own_labels));
        let children = self.children.get(&(namespace.clone(), name));
        let movements = children.into_iter().flat_map(|children| self.movements_of(children));
        let movements = movements.filter(|movement| has_own_labels(movement.labels()));
        Copies {
            profile: if_owned_by(self.movement_profiles.get(&namespace, &profile), &uid),
            movements: movements.map(|object| (object_key(&**object), object.clone())).collect(),
            has_unreadable,
        }
    }

    pub(super) fn movements_of(
        &self,
        children: &Children,
    ) -> impl Iterator<Item = &Arc<NnfDataMovement>> {
        children.movements.iter().filter_map(|at| self.movements.get(&at.0, &at.1))
    }
}

impl WatchedKind for NnfDataMovement {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.movements
    }

    /// Ignores movements of the Go controllers: the storage of such a movement has no Servers.
    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object().filter(|object| object.is_ours()) else {
            return Vec::new();
        };
        let workflow = workflow_of(&**object);
        let mut wakes = world.take_child(change, |children| &mut children.movements);
        // Persistent storage stays mounted until its copies have finished, and in Teardown until they are gone.
        let is_finished =
            |object: &Option<Arc<Self>>| object.as_ref().map(|object| object.is_finished());
        if is_finished(&change.old) != is_finished(&change.new) {
            wakes.extend(workflow.iter().flat_map(|workflow| world.wake_named_by(workflow)));
        }
        wakes
    }
}

impl WatchedKind for NnfDataMovementProfile {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.movement_profiles
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let templates = world.site.movement_profiles.get_or_insert_default();
        take_profile(change, templates, |profile| profile.data().pinned)
    }

    /// Called after the first list of profiles: from then on the set of profiles is known, even if it is empty.
    fn on_list(world: &mut World) -> Vec<Wake> {
        world.site.movement_profiles.get_or_insert_default();
        Vec::new()
    }
}

//! Objects of the containers of workflows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{
    NnfContainerProfile, NnfPortManager, NodeContainers, PersistentVolume, RabbitLabels, Workflow,
    names::{NNF_PORT_MANAGER, label},
};
use controller::{Change, Object, ObjectKey, Store};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service},
    networking::v1::NetworkPolicy,
};
use kube::ResourceExt;

use super::{
    Key, Wake, WatchedKind, World,
    children::{Children, if_owned_by},
    object_key, set_or_remove, take_profile, workflow_of,
};
use crate::{
    names::{directive_object_name, service_name},
    objects::view::{Containers, Orphans},
};

impl World {
    /// Returns the objects of a directive's containers.
    pub(super) fn containers(&self, workflow: &Workflow, index: usize) -> Containers {
        let (namespace, name) = object_key(workflow);
        let (uid, object_name) =
            (workflow.uid().unwrap_or_default(), directive_object_name(workflow, index));
        let has_own_labels = |labels: &BTreeMap<String, String>| {
            labels.get(label::WORKFLOW_UID) == Some(&uid)
                && labels.get(label::DIRECTIVE_INDEX) == Some(&index.to_string())
        };
        let service = service_name(workflow, index);
        let mut containers = Containers {
            profile: if_owned_by(self.container_profiles.get(&namespace, &object_name), &uid),
            run: if_owned_by(self.runs.get(&namespace, &object_name), &uid),
            service: if_owned_by(self.services.get(&namespace, &service), &uid)
                .filter(|object| has_own_labels(object.labels())),
            network_policy: if_owned_by(self.network_policies.get(&namespace, &service), &uid)
                .filter(|object| has_own_labels(object.labels())),
            config_map: if_owned_by(self.config_maps.get(&namespace, &object_name), &uid),
            ..Containers::default()
        };
        let mut unreadable = self.on_rabbits.unreadable();
        containers.has_unreadable =
            unreadable.any(|metadata| metadata.labels.as_ref().is_some_and(&has_own_labels));
        let Some(children) = self.children.get(&(namespace, name)) else { return containers };
        let on_rabbits = children.on_rabbits.iter();
        for at in on_rabbits {
            let object =
                self.on_rabbits.get(&at.0, &at.1).filter(|object| has_own_labels(object.labels()));
            let Some(object) = object else { continue };
            let runs = !object.spec.containers.is_empty();
            let by_key = if runs { &mut containers.on_rabbits } else { &mut containers.packages };
            by_key.insert(at.clone(), object.clone());
        }
        let jobs = children.jobs.iter().filter_map(|at| self.jobs.get(&at.0, &at.1));
        for job in jobs.filter(|job| has_own_labels(job.labels())) {
            containers.jobs.insert(job.name_any(), job.clone());
        }
        containers.keys = children.keys.iter().map(|at| at.1.clone()).collect();
        let config_maps = children.config_maps.iter();
        let config_maps = config_maps.filter_map(|at| self.config_maps.get(&at.0, &at.1));
        for config_map in config_maps.filter(|config_map| has_own_labels(config_map.labels())) {
            let number = config_map.labels().get(label::ATTEMPT).and_then(|text| text.parse().ok());
            containers.attempts.extend(number.map(|number| (number, config_map.clone())));
        }
        let pods = children.pods.iter().filter_map(|at| self.pods.get(&at.0, &at.1));
        for pod in pods.filter(|pod| has_own_labels(pod.labels())) {
            let job = pod.labels().get(label::JOB_NAME).cloned().unwrap_or_default();
            containers.pods.entry(job).or_default().push(pod.clone());
        }
        for volume in self.volumes_of(children).filter(|volume| has_own_labels(volume.labels())) {
            containers.volumes.insert(volume.name_any(), volume.clone());
        }
        let claims = children.volume_claims.iter();
        let claims = claims.filter_map(|at| self.volume_claims.get(&at.0, &at.1));
        for claim in claims.filter(|claim| has_own_labels(claim.labels())) {
            containers.volume_claims.insert(claim.name_any(), claim.clone());
        }
        containers
    }

    fn volumes_of(&self, children: &Children) -> impl Iterator<Item = &Arc<PersistentVolume>> {
        children.volumes.iter().filter_map(|at| self.volumes.get(&at.0, &at.1))
    }

    /// Returns the objects that containers of earlier workflows of this name left behind: all objects except those of
    /// the workflow with this uid.
    #[must_use]
    pub fn orphans(&self, workflow: &ObjectKey, uid: &str) -> Orphans {
        let Some(children) = self.children.get(workflow) else { return Orphans::default() };
        let on_rabbits = children.on_rabbits.iter();
        let containers = on_rabbits.filter_map(|at| self.on_rabbits.get(&at.0, &at.1));
        let volumes = self.volumes_of(children);
        Orphans {
            containers: of_other_workflows(containers, uid).collect(),
            volumes: of_other_workflows(volumes, uid).collect(),
            movements: of_other_workflows(self.movements_of(children), uid).collect(),
        }
    }

    /// Takes in an object that uses storage. When the object is gone, the plan of persistent storage
    /// may unmount this storage.
    fn take_child_with_storage<K: Object>(
        &mut self,
        change: &Change<K>,
        set: fn(&mut Children) -> &mut BTreeSet<ObjectKey>,
    ) -> Vec<Wake> {
        let mut wakes = self.take_child(change, set);
        let workflow = change.object().and_then(|object| workflow_of(&**object));
        wakes.extend(workflow.map(|at| self.wake_named_by(&at)).unwrap_or_default());
        wakes
    }

    /// Records that the Secret of an attempt exists. No watch delivers this: the engine has no right to read Secrets.
    pub fn add_keys(&mut self, secret: &Secret) -> Vec<Wake> {
        let Some(workflow) = workflow_of(secret) else { return Vec::new() };
        self.children.entry(workflow.clone()).or_default().keys.insert(object_key(secret));
        vec![Wake::Key(Key::Workflow(workflow))]
    }
}

/// Returns the objects of all workflows except the workflow with this uid.
fn of_other_workflows<'a, K: Object>(
    all: impl Iterator<Item = &'a Arc<K>>,
    uid: &str,
) -> impl Iterator<Item = Arc<K>> {
    all.filter(move |object| object.label(label::WORKFLOW_UID) != Some(uid)).cloned()
}

impl WatchedKind for NnfContainerProfile {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.container_profiles
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        take_profile(change, &mut world.site.container_profiles, |profile| profile.data().pinned)
    }
}

impl WatchedKind for NnfPortManager {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.ports
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let (rabbit, name) = object_key(&**object);
        if name != NNF_PORT_MANAGER {
            return Vec::new();
        }
        set_or_remove(&mut world.site.ports, rabbit, change.new.clone());
        // Wake the workflows that have ports, and the workflows that failed because too few ports were free.
        let records = [&change.old, &change.new].into_iter().flatten();
        let records = records.filter_map(|record| record.status.as_ref());
        let requesters = records.flat_map(|status| &status.allocations).map(|allocation| {
            let requester = &*allocation.requester;
            let part = |text: &Option<String>| text.clone().unwrap_or_default();
            Wake::Key(Key::Workflow((part(&requester.namespace), part(&requester.name))))
        });
        // A new port record has no allocations: wake all waiting workflows.
        let is_new = change.new.as_ref().is_some_and(|record| record.status.is_none());
        requesters.chain([if is_new { Wake::Waiting } else { Wake::Failing }]).collect()
    }
}

impl WatchedKind for NodeContainers {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.on_rabbits
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        world.take_child_with_storage(change, |children| &mut children.on_rabbits)
    }
}

impl WatchedKind for Job {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.jobs
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        world.take_child_with_storage(change, |children| &mut children.jobs)
    }
}

impl WatchedKind for Pod {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.pods
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        world.take_child_with_storage(change, |children| &mut children.pods)
    }
}

impl WatchedKind for Service {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.services
    }
}

impl WatchedKind for NetworkPolicy {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.network_policies
    }
}

impl WatchedKind for ConfigMap {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.config_maps
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        world.take_child(change, |children| &mut children.config_maps)
    }
}

impl WatchedKind for PersistentVolume {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.volumes
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        world.take_child_with_storage(change, |children| &mut children.volumes)
    }
}

impl WatchedKind for PersistentVolumeClaim {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.volume_claims
    }

    fn on_change(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        world.take_child_with_storage(change, |children| &mut children.volume_claims)
    }
}

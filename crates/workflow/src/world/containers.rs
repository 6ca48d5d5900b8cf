//! What belongs to the containers of workflows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{
    NnfContainerProfile, NnfPortManager, NodeContainers, PersistentVolume, RabbitLabels, Workflow,
    names::{NNF_PORT_MANAGER, PROFILE_TEMPLATE_NAMESPACE, label},
};
use controller::{Change, Object, ObjectKey, Store};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service},
    networking::v1::NetworkPolicy,
};
use kube::ResourceExt;

use super::{
    Kept, Key, Wake, World,
    children::{Children, own},
    keep, place, wake_workflow, workflow_of,
};
use crate::{
    names::of_directive,
    view::{Containers, Left},
};

impl World {
    /// The containers of a directive.
    pub(super) fn containers(&self, workflow: &Workflow, index: usize) -> Containers {
        let (namespace, name) = place(workflow);
        let (uid, of) = (workflow.uid().unwrap_or_default(), of_directive(workflow, index));
        let mine = |labels: &BTreeMap<String, String>| {
            labels.get(label::WORKFLOW_UID) == Some(&uid)
                && labels.get(label::DIRECTIVE_INDEX) == Some(&index.to_string())
        };
        let mut containers = Containers {
            profile: own(self.container_profiles.get(&namespace, &of), &uid),
            run: own(self.runs.get(&namespace, &of), &uid),
            service: own(self.services.get(&namespace, &name), &uid)
                .filter(|one| mine(one.labels())),
            network_policy: own(self.network_policies.get(&namespace, &name), &uid)
                .filter(|one| mine(one.labels())),
            config_map: own(self.config_maps.get(&namespace, &of), &uid),
            ..Containers::default()
        };
        let mut unreadable = self.on_rabbits.unreadable();
        containers.has_unreadable =
            unreadable.any(|metadata| metadata.labels.as_ref().is_some_and(&mine));
        let Some(children) = self.children.get(&(namespace, name)) else { return containers };
        let on_rabbits = children.on_rabbits.iter();
        for at in on_rabbits {
            let one = self.on_rabbits.get(&at.0, &at.1).filter(|one| mine(one.labels()));
            let Some(one) = one else { continue };
            let runs = !one.spec.containers.is_empty();
            let of = if runs { &mut containers.on_rabbits } else { &mut containers.packages };
            of.insert(at.clone(), one.clone());
        }
        let jobs = children.jobs.iter().filter_map(|at| self.jobs.get(&at.0, &at.1));
        for job in jobs.filter(|one| mine(one.labels())) {
            containers.jobs.insert(job.name_any(), job.clone());
        }
        containers.keys = children.keys.iter().map(|at| at.1.clone()).collect();
        let config_maps = children.config_maps.iter();
        let config_maps = config_maps.filter_map(|at| self.config_maps.get(&at.0, &at.1));
        for config_map in config_maps.filter(|one| mine(one.labels())) {
            let number = config_map.labels().get(label::ATTEMPT).and_then(|text| text.parse().ok());
            containers.attempts.extend(number.map(|number| (number, config_map.clone())));
        }
        let pods = children.pods.iter().filter_map(|at| self.pods.get(&at.0, &at.1));
        for pod in pods.filter(|one| mine(one.labels())) {
            let job = pod.labels().get(label::JOB_NAME).cloned().unwrap_or_default();
            containers.pods.entry(job).or_default().push(pod.clone());
        }
        for volume in self.volumes_of(children).filter(|one| mine(one.labels())) {
            containers.volumes.insert(volume.name_any(), volume.clone());
        }
        let claims = children.volume_claims.iter();
        let claims = claims.filter_map(|at| self.volume_claims.get(&at.0, &at.1));
        for claim in claims.filter(|one| mine(one.labels())) {
            containers.volume_claims.insert(claim.name_any(), claim.clone());
        }
        containers
    }

    fn volumes_of(&self, children: &Children) -> impl Iterator<Item = &Arc<PersistentVolume>> {
        children.volumes.iter().filter_map(|at| self.volumes.get(&at.0, &at.1))
    }

    /// Returns the objects that containers of earlier workflows of this name left: of any but the one with this uid.
    #[must_use]
    pub fn left(&self, workflow: &ObjectKey, uid: &str) -> Left {
        let Some(children) = self.children.get(workflow) else { return Left::default() };
        let on_rabbits = children.on_rabbits.iter();
        let containers = on_rabbits.filter_map(|at| self.on_rabbits.get(&at.0, &at.1));
        let volumes = self.volumes_of(children);
        Left {
            containers: others(containers, uid).collect(),
            volumes: others(volumes, uid).collect(),
        }
    }

    /// Takes in something that uses storage. When it ends, the plan of a persistent storage may unmount that.
    fn child_with_storage<K: Object>(
        &mut self,
        change: &Change<K>,
        set: fn(&mut Children) -> &mut BTreeSet<ObjectKey>,
    ) -> Vec<Wake> {
        let mut wakes = self.child(change, set);
        let workflow = change.object().and_then(|object| workflow_of(&**object));
        wakes.extend(workflow.map(|at| self.wake_named_by(&at)).unwrap_or_default());
        wakes
    }

    /// Takes in that the Secret of an attempt is there. No watch tells it: the engine may not read Secrets.
    pub fn keys_made(&mut self, secret: &Secret) -> Vec<Wake> {
        let Some(workflow) = workflow_of(secret) else { return Vec::new() };
        self.children.entry(workflow.clone()).or_default().keys.insert(place(secret));
        vec![Wake::Key(Key::Workflow(workflow))]
    }
}

/// Returns the objects that belong to another workflow than the one with this uid.
fn others<'a, K: Object>(
    all: impl Iterator<Item = &'a Arc<K>>,
    uid: &str,
) -> impl Iterator<Item = Arc<K>> {
    all.filter(move |one| one.label(label::WORKFLOW_UID) != Some(uid)).cloned()
}

impl Kept for NnfContainerProfile {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.container_profiles
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let (namespace, name) = place(&**object);
        if namespace != PROFILE_TEMPLATE_NAMESPACE {
            return wake_workflow(workflow_of(&**object));
        }
        let template = change.new.clone().filter(|profile| !profile.data().pinned);
        keep(&mut world.site.container_profiles, name, template);
        vec![Wake::Waiting]
    }
}

impl Kept for NnfPortManager {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.ports
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        let Some(object) = change.object() else { return Vec::new() };
        let (rabbit, name) = place(&**object);
        if name != NNF_PORT_MANAGER {
            return Vec::new();
        }
        keep(&mut world.site.ports, rabbit, change.new.clone());
        // Wake the workflows that have ports, and those that failed because too few were free.
        let records = [&change.old, &change.new].into_iter().flatten();
        let records = records.filter_map(|record| record.status.as_ref());
        let requesters = records.flat_map(|status| &status.allocations).map(|one| {
            let requester = &*one.requester;
            let part = |text: &Option<String>| text.clone().unwrap_or_default();
            Wake::Key(Key::Workflow((part(&requester.namespace), part(&requester.name))))
        });
        // A new port record has no allocations: wake all waiting workflows.
        let is_new = change.new.as_ref().is_some_and(|record| record.status.is_none());
        requesters.chain([if is_new { Wake::Waiting } else { Wake::Failing }]).collect()
    }
}

impl Kept for NodeContainers {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.on_rabbits
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        world.child_with_storage(change, |children| &mut children.on_rabbits)
    }
}

impl Kept for Job {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.jobs
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        world.child_with_storage(change, |children| &mut children.jobs)
    }
}

impl Kept for Pod {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.pods
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        world.child_with_storage(change, |children| &mut children.pods)
    }
}

impl Kept for Service {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.services
    }
}

impl Kept for NetworkPolicy {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.network_policies
    }
}

impl Kept for ConfigMap {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.config_maps
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        world.child(change, |children| &mut children.config_maps)
    }
}

impl Kept for PersistentVolume {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.volumes
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        world.child_with_storage(change, |children| &mut children.volumes)
    }
}

impl Kept for PersistentVolumeClaim {
    fn store(world: &mut World) -> &mut Store<Self> {
        &mut world.volume_claims
    }

    fn changed(world: &mut World, change: &Change<Self>) -> Vec<Wake> {
        world.child_with_storage(change, |children| &mut children.volume_claims)
    }
}

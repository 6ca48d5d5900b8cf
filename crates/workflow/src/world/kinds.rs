//! The kinds that the engine acts on: what it watches, and what it may conclude from.

use std::collections::BTreeMap;

use api::{
    ClientMount, Computes, ContainerRun, DWDirectiveRule, DirectiveBreakdown, KubernetesNode,
    LustreFileSystem, NnfContainerProfile, NnfLustreMgt, NnfNode, NnfNodeBlockStorage,
    NnfNodeStorage, NnfPortManager, NnfStorageProfile, NodeContainers, PersistentStorageInstance,
    PersistentVolume, Servers, Storage, SystemConfiguration, SystemStatus, Workflow,
};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service},
    networking::v1::NetworkPolicy,
};
use kube::{Resource, api::DynamicObject};

use super::{Kept, Wake, World};
use crate::site::Settings;

/// Which objects of a kind the engine watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All.
    All,
    /// All, where the API serves the kind, which is another project's, and the coordinator may list it.
    IfServed,
    /// Those with the label of containers, in the namespace of containers.
    Containers,
    /// Those with the label of containers, of a kind that is in no namespace.
    ContainersOfCluster,
}

/// Does something with each kind that the engine acts on.
pub trait ForEachKind {
    /// Does it with this kind.
    fn kind<K: Kept>(&mut self, scope: Scope);
}

impl Settings {
    /// Calls `each` with every kind that an engine with these settings acts on.
    pub fn kinds(&self, each: &mut impl ForEachKind) {
        each.kind::<Workflow>(Scope::All);
        each.kind::<Computes>(Scope::All);
        each.kind::<DirectiveBreakdown>(Scope::All);
        each.kind::<Servers>(Scope::All);
        each.kind::<ClientMount>(Scope::All);
        each.kind::<NnfLustreMgt>(Scope::All);
        each.kind::<NnfNodeBlockStorage>(Scope::All);
        each.kind::<NnfNodeStorage>(Scope::All);
        each.kind::<NnfStorageProfile>(Scope::All);
        each.kind::<NnfNode>(Scope::All);
        each.kind::<Storage>(Scope::All);
        each.kind::<SystemConfiguration>(Scope::All);
        each.kind::<SystemStatus>(Scope::All);
        each.kind::<PersistentStorageInstance>(Scope::All);
        each.kind::<DWDirectiveRule>(Scope::All);
        each.kind::<NnfContainerProfile>(Scope::All);
        each.kind::<LustreFileSystem>(Scope::IfServed);
        if self.has_nodes {
            each.kind::<KubernetesNode>(Scope::IfServed);
        }
        if self.claims_as.is_some() {
            each.kind::<ContainerRun>(Scope::All);
        }
        let Some(containers) = &self.containers else { return };
        each.kind::<NnfPortManager>(Scope::All);
        each.kind::<ConfigMap>(Scope::Containers);
        let is_on_kubernetes = containers.namespace.is_some();
        // A coordinator that has no packages fetched need not know the kind.
        if !is_on_kubernetes || containers.packages {
            each.kind::<NodeContainers>(Scope::All);
        }
        if is_on_kubernetes {
            each.kind::<Job>(Scope::Containers);
            each.kind::<Pod>(Scope::Containers);
            each.kind::<Service>(Scope::Containers);
            each.kind::<NetworkPolicy>(Scope::Containers);
            each.kind::<PersistentVolumeClaim>(Scope::Containers);
            each.kind::<PersistentVolume>(Scope::ContainersOfCluster);
        }
    }
}

/// Takes in an object as the API stored it; of a new one, with how many lists there were before.
type TakeStored = fn(&mut World, DynamicObject, Option<u64>) -> Vec<Wake>;

/// By kind, where it is watched, and how the world takes in what the API stored.
#[derive(Debug, Default)]
pub(super) struct Kinds(BTreeMap<String, (Scope, TakeStored)>);

impl Kinds {
    pub(super) fn of(settings: &Settings) -> Self {
        let mut kinds = Self::default();
        settings.kinds(&mut kinds);
        kinds
    }

    /// Whether the engine does its work without the objects of a kind, and leaves out what depends on them.
    pub(super) fn is_optional(&self, kind: &str) -> bool {
        self.0.get(kind).is_some_and(|(scope, _)| *scope == Scope::IfServed)
    }
}

impl ForEachKind for Kinds {
    fn kind<K: Kept>(&mut self, scope: Scope) {
        let take: TakeStored = |world, object, is_new| match (object.try_parse::<K>(), is_new) {
            (Ok(object), Some(lists)) => world.created(object, lists),
            (Ok(object), None) => world.patched(object),
            (Err(_), _) => Vec::new(),
        };
        self.0.insert(K::kind(&()).into_owned(), (scope, take));
    }
}

impl World {
    /// Whether every kind was listed to its end, but for optional ones that the API refuses: nothing may be concluded before.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.kinds.0.keys().all(|kind| self.answered.contains(kind))
    }

    /// Takes in what the API answered to a change, ahead of the watch; of a new object, with how many lists there were before.
    pub fn stored(&mut self, object: DynamicObject, is_new: Option<u64>) -> Vec<Wake> {
        let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
        match self.kinds.0.get(&kind) {
            Some((_, take)) => take(self, object, is_new),
            // No watch brings Secrets: the engine may not read them.
            None if kind == Secret::kind(&()) => {
                object.try_parse().map(|secret| self.keys_made(&secret)).unwrap_or_default()
            }
            None => Vec::new(),
        }
    }
}

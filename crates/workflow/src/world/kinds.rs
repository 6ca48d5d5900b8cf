//! The kinds that the engine watches.

use std::collections::BTreeMap;

use api::{
    ClientMount, Computes, ContainerRun, DWDirectiveRule, DirectiveBreakdown, KubernetesNode,
    LustreFileSystem, NnfContainerProfile, NnfDataMovement, NnfDataMovementProfile, NnfLustreMgt,
    NnfNode, NnfNodeBlockStorage, NnfNodeStorage, NnfPortManager, NnfStorageProfile,
    NnfSystemStorage, NodeContainers, PersistentStorageInstance, PersistentVolume, Servers,
    Storage, SystemConfiguration, SystemStatus, Workflow,
};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service},
    networking::v1::NetworkPolicy,
};
use kube::{Resource, api::DynamicObject};

use super::{Wake, WatchedKind, World};
use crate::{change::Target, objects::site::Settings};

/// Which objects of a kind the engine watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    All,
    /// All objects, if the API serves the kind and the coordinator may list it. The kind belongs to another project, or
    /// is newer than the CRDs of some cluster.
    IfServed,
    /// Objects with the label of containers, in the namespace of containers.
    Containers,
    /// Objects with the label of containers, of a kind that is in no namespace.
    ContainersOfCluster,
}

/// A function that is called with each kind that the engine acts on.
pub trait ForEachKind {
    fn kind<K: WatchedKind>(&mut self, scope: Scope);
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
        each.kind::<NnfDataMovement>(Scope::IfServed);
        each.kind::<NnfDataMovementProfile>(Scope::IfServed);
        each.kind::<NnfSystemStorage>(Scope::IfServed);
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
        // An API without job packages may not serve the kind NodeContainers.
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

/// Takes in an object as the API stored it. For a new object, the number says how many lists the watches had
/// delivered before the object was created.
type TakeStored = fn(&mut World, DynamicObject, Option<u64>) -> Vec<Wake>;

/// Finds an object by its namespace and name.
type Find = fn(&mut World, &str, &str) -> Option<DynamicObject>;

/// A kind that the world keeps.
#[derive(Clone, Copy, Debug)]
struct Kind {
    scope: Scope,
    take: TakeStored,
    find: Find,
}

/// The kinds that the world keeps, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds(BTreeMap<String, Kind>);

impl Kinds {
    pub(super) fn new(settings: &Settings) -> Self {
        let mut kinds = Self::default();
        settings.kinds(&mut kinds);
        kinds
    }

    /// Returns true if the engine works without objects of this kind.
    pub(super) fn is_optional(&self, kind: &str) -> bool {
        self.0.get(kind).is_some_and(|kind| kind.scope == Scope::IfServed)
    }
}

impl ForEachKind for Kinds {
    fn kind<K: WatchedKind>(&mut self, scope: Scope) {
        let take: TakeStored = |world, object, is_new| match (object.try_parse::<K>(), is_new) {
            (Ok(object), Some(lists)) => world.take_created(object, lists),
            (Ok(object), None) => world.take_patched(object),
            (Err(_), _) => Vec::new(),
        };
        let find: Find = |world, namespace, name| {
            let object = K::store(world).get(namespace, name)?;
            serde_json::from_value(serde_json::to_value(&**object).ok()?).ok()
        };
        self.0.insert(K::kind(&()).into_owned(), Kind { scope, take, find });
    }
}

impl World {
    /// Returns true once every kind was listed, except optional kinds that the API refuses. The engine
    /// plans nothing before that.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.kinds.0.keys().all(|kind| self.answered.contains(kind))
    }

    /// Returns an object of a kind that the world keeps.
    pub(crate) fn find(&mut self, target: &Target) -> Option<DynamicObject> {
        let find = self.kinds.0.get(&target.resource.kind)?.find;
        find(self, &target.namespace, &target.name)
    }

    /// Takes in the API's answer to a change, before the watch delivers it. `is_new` is the number of lists delivered
    /// before the creation of a new object.
    pub fn take_stored(&mut self, object: DynamicObject, is_new: Option<u64>) -> Vec<Wake> {
        let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
        match self.kinds.0.get(&kind) {
            Some(Kind { take, .. }) => take(self, object, is_new),
            // Secrets have no watch: the engine has no right to read them.
            None if kind == Secret::kind(&()) => {
                object.try_parse().map(|secret| self.add_keys(&secret)).unwrap_or_default()
            }
            None => Vec::new(),
        }
    }
}

//! What the API answered to changes.

use api::{
    ClientMount, Computes, ContainerRun, DirectiveBreakdown, NnfContainerProfile, NnfLustreMgt,
    NnfNodeBlockStorage, NnfNodeStorage, NnfPortManager, NnfStorageProfile, NodeContainers,
    PersistentStorageInstance, Servers, Storage, Workflow,
};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Service},
    networking::v1::NetworkPolicy,
};
use kube::api::DynamicObject;

use crate::{
    execute::Stored,
    world::{Kept, Wake, World},
};

/// Takes in what the API answered, ahead of the watch.
pub(super) fn stored(
    world: &mut World,
    Stored { object, is_new }: Stored,
    lists: u64,
) -> Vec<Wake> {
    let is_new = is_new.then_some(lists);
    let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
    match kind.as_str() {
        "Workflow" => take::<Workflow>(world, object, is_new),
        "Computes" => take::<Computes>(world, object, is_new),
        "DirectiveBreakdown" => take::<DirectiveBreakdown>(world, object, is_new),
        "Servers" => take::<Servers>(world, object, is_new),
        "ClientMount" => take::<ClientMount>(world, object, is_new),
        "NnfLustreMGT" => take::<NnfLustreMgt>(world, object, is_new),
        "PersistentStorageInstance" => take::<PersistentStorageInstance>(world, object, is_new),
        "NnfNodeBlockStorage" => take::<NnfNodeBlockStorage>(world, object, is_new),
        "NnfNodeStorage" => take::<NnfNodeStorage>(world, object, is_new),
        "NnfStorageProfile" => take::<NnfStorageProfile>(world, object, is_new),
        "Storage" => take::<Storage>(world, object, is_new),
        "NnfContainerProfile" => take::<NnfContainerProfile>(world, object, is_new),
        "NnfPortManager" => take::<NnfPortManager>(world, object, is_new),
        "NodeContainers" => take::<NodeContainers>(world, object, is_new),
        "ContainerRun" => take::<ContainerRun>(world, object, is_new),
        "Job" => take::<Job>(world, object, is_new),
        "Service" => take::<Service>(world, object, is_new),
        "NetworkPolicy" => take::<NetworkPolicy>(world, object, is_new),
        "ConfigMap" => take::<ConfigMap>(world, object, is_new),
        "Secret" => object.try_parse().map(|secret| world.keys_made(&secret)).unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn take<K: Kept>(world: &mut World, object: DynamicObject, is_new: Option<u64>) -> Vec<Wake> {
    match (object.try_parse::<K>(), is_new) {
        (Ok(object), Some(lists)) => world.created(object, lists),
        (Ok(object), None) => world.patched(object),
        (Err(_), _) => Vec::new(),
    }
}

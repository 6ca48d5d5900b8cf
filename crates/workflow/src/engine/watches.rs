//! The watches of all kinds, as one stream of what to do with the world.

use std::fmt;

use api::{
    ClientMount, Computes, ContainerRun, DWDirectiveRule, DirectiveBreakdown, NnfContainerProfile,
    NnfLustreMgt, NnfNode, NnfNodeBlockStorage, NnfNodeStorage, NnfPortManager, NnfStorageProfile,
    NodeContainers, PersistentStorageInstance, Servers, Storage, SystemConfiguration, SystemStatus,
    Workflow, names::label,
};
use controller::{WatchHealth, Watched, watch};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Pod, Service},
    networking::v1::NetworkPolicy,
};
use kube::{Client, api::ApiResource, runtime::watcher::Config};

use crate::world::{Kept, Wake, World};

/// What a watch brought.
pub(super) struct Update(pub(super) Box<Take>);

pub(super) type Take = dyn FnOnce(&mut World) -> Vec<Wake> + Send;

impl fmt::Debug for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Update").finish_non_exhaustive()
    }
}

/// Watches everything but what containers are made from.
pub(super) fn watch_all(client: &Client) -> BoxStream<'static, Update> {
    let health = WatchHealth::default();
    let (client, health) = (client, &health);
    stream::select_all([
        watch_one::<Workflow>(client, health),
        watch_one::<Computes>(client, health),
        watch_one::<DirectiveBreakdown>(client, health),
        watch_one::<Servers>(client, health),
        watch_one::<ClientMount>(client, health),
        watch_one::<NnfLustreMgt>(client, health),
        watch_one::<NnfNodeBlockStorage>(client, health),
        watch_one::<NnfNodeStorage>(client, health),
        watch_one::<NnfStorageProfile>(client, health),
        watch_one::<NnfNode>(client, health),
        watch_one::<Storage>(client, health),
        watch_one::<SystemConfiguration>(client, health),
        watch_one::<SystemStatus>(client, health),
        watch_one::<PersistentStorageInstance>(client, health),
        watch_one::<DWDirectiveRule>(client, health),
        watch_one::<NnfContainerProfile>(client, health),
    ])
    .boxed()
}

/// Watches what containers are made from, in their namespace or on rabbits, and the ports of rabbits.
pub(super) fn watch_containers(
    client: &Client,
    namespace: Option<&str>,
    fetches_packages: bool,
) -> BoxStream<'static, Update> {
    let health = &WatchHealth::default();
    if namespace.is_none() {
        return stream::select_all([
            watch_one::<NnfPortManager>(client, health),
            watch_one::<NodeContainers>(client, health),
            watch_labelled::<ConfigMap>(client, health, None),
        ])
        .boxed();
    }
    // Who has no packages fetched need not know the kind.
    let on_rabbits = fetches_packages.then(|| watch_one::<NodeContainers>(client, health));
    let all = [
        watch_one::<NnfPortManager>(client, health),
        watch_labelled::<Job>(client, health, namespace),
        watch_labelled::<Pod>(client, health, namespace),
        watch_labelled::<Service>(client, health, namespace),
        watch_labelled::<NetworkPolicy>(client, health, namespace),
        watch_labelled::<ConfigMap>(client, health, namespace),
    ];
    stream::select_all(all.into_iter().chain(on_rabbits)).boxed()
}

/// Watches what coordinators claim.
pub(super) fn watch_runs(client: &Client) -> BoxStream<'static, Update> {
    watch_one::<ContainerRun>(client, &WatchHealth::default())
}

fn watch_labelled<K: Kept>(
    client: &Client,
    health: &WatchHealth,
    namespace: Option<&str>,
) -> BoxStream<'static, Update> {
    let config = Config::default().labels(label::CONTAINER);
    watch_as::<K>(client, health, namespace.map(str::to_owned), config)
}

fn watch_one<K: Kept>(client: &Client, health: &WatchHealth) -> BoxStream<'static, Update> {
    watch_as::<K>(client, health, None, Config::default())
}

fn watch_as<K: Kept>(
    client: &Client,
    health: &WatchHealth,
    namespace: Option<String>,
    config: Config,
) -> BoxStream<'static, Update> {
    let watched = Watched { resource: ApiResource::erase::<K>(&()), namespace, config };
    let health = health.clone();
    let events = watch(client.clone(), watched).map(move |event| {
        let event = event.of::<K>();
        health.log(&event);
        Update(Box::new(move |world| world.take(event)))
    });
    events.boxed()
}

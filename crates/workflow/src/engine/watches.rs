//! Merges the watches of all kinds into one stream of updates for the world, which keeps all objects that
//! the engine acts on.

use api::names::label;
use controller::{WatchHealth, updates, updates_if_served};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::{Client, runtime::watcher::Config};

use crate::{
    objects::site::Settings,
    world::{ForEachKind, Scope, Wake, WatchedKind, World},
};

/// An update of the world that a watch delivered.
pub(super) type Update = controller::Update<World, Wake>;

/// Watches every kind that the engine acts on.
pub(super) fn watch_all(client: &Client, settings: &Settings) -> BoxStream<'static, Update> {
    let containers = settings.containers.as_ref();
    let mut watches = Watches {
        client: client.clone(),
        namespace: containers.and_then(|containers| containers.namespace.clone()),
        health: WatchHealth::default(),
        streams: Vec::new(),
    };
    settings.kinds(&mut watches);
    stream::select_all(watches.streams).boxed()
}

struct Watches {
    client: Client,
    /// Namespace of the containers; `None` for all namespaces.
    namespace: Option<String>,
    health: WatchHealth,
    streams: Vec<BoxStream<'static, Update>>,
}

impl ForEachKind for Watches {
    fn kind<K: WatchedKind>(&mut self, scope: Scope) {
        let (namespace, config) = match scope {
            Scope::All => (None, Config::default()),
            Scope::IfServed => {
                let events =
                    updates_if_served::<K, _, _>(&self.client, &self.health, None, World::take);
                self.streams.push(events);
                return;
            }
            Scope::Containers => {
                (self.namespace.as_deref(), Config::default().labels(label::CONTAINER))
            }
            Scope::ContainersOfCluster => (None, Config::default().labels(label::CONTAINER)),
        };
        let events = updates::<K, _, _>(&self.client, &self.health, namespace, config, World::take);
        self.streams.push(events);
    }
}

//! The watches of all kinds, as one stream of what to do with the world.

use std::fmt;

use api::names::label;
use controller::{WatchHealth, Watched, watch};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::{Client, api::ApiResource, runtime::watcher::Config};

use crate::{
    site::Settings,
    world::{ForEachKind, Kept, Scope, Wake, World},
};

/// What a watch brought.
pub(super) struct Update(pub(super) Box<Take>);

pub(super) type Take = dyn FnOnce(&mut World) -> Vec<Wake> + Send;

impl fmt::Debug for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Update").finish_non_exhaustive()
    }
}

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
    /// Where containers are; `None` for all namespaces.
    namespace: Option<String>,
    health: WatchHealth,
    streams: Vec<BoxStream<'static, Update>>,
}

impl ForEachKind for Watches {
    fn kind<K: Kept>(&mut self, scope: Scope) {
        let (namespace, config) = match scope {
            Scope::All => (None, Config::default()),
            Scope::Containers => {
                (self.namespace.clone(), Config::default().labels(label::CONTAINER))
            }
        };
        let watched = Watched { resource: ApiResource::erase::<K>(&()), namespace, config };
        let health = self.health.clone();
        let events = watch(self.client.clone(), watched).map(move |event| {
            let event = event.of::<K>();
            health.log(&event);
            Update(Box::new(move |world| world.take(event)))
        });
        self.streams.push(events.boxed());
    }
}

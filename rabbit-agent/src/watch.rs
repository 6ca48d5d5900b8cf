//! Watches on the API, one per kind: the rabbit's own namespace, the SystemConfiguration, and the profiles.

use std::fmt;

use api::{
    ClientMount, NnfLustreMgt, NnfNode, NnfNodeBlockStorage, NnfNodeStorage, NnfStorageProfile,
    NodeContainers, SystemConfiguration, names::SYSTEM_CONFIGURATION,
};
use controller::{WatchHealth, Watched, watch};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::{Client, api::ApiResource, runtime::watcher::Config};
use storage::desired::NodeName;

use crate::cache::{Cache, CacheUpdate, Cached, Wake};

/// A change to the cache that a watch or another task found.
pub struct Update(CacheUpdate);

impl Update {
    /// The set of fenced computes changed.
    pub(crate) fn of_fences() -> Self {
        Self(Box::new(|cache| cache.fences_changed()))
    }

    /// A device event came.
    pub fn of_node() -> Self {
        Self(Box::new(|cache| cache.devices_changed()))
    }

    /// A package of containers came, or failed to.
    pub(crate) fn of_packages() -> Self {
        Self(Box::new(|cache| cache.waiting_containers()))
    }

    /// Makes the change, and returns what to wake.
    pub fn apply(self, cache: &mut Cache) -> Vec<Wake> {
        (self.0)(cache)
    }
}

impl fmt::Debug for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Update").finish_non_exhaustive()
    }
}

/// Watches everything that concerns this rabbit, without end. The log reports each failure once, and the watches retry.
/// Those that run no containers and fetch no packages need not know the kind.
pub fn watch_all(
    client: &Client,
    node: &NodeName,
    has_packages: bool,
) -> BoxStream<'static, Update> {
    let node = node.as_str();
    let watches = Watches { client: client.clone(), health: WatchHealth::default() };
    let everything = Config::default();
    let one = Config::default().fields(&format!("metadata.name={SYSTEM_CONFIGURATION}"));
    let containers =
        has_packages.then(|| watches.of::<NodeContainers>(Some(node), everything.clone()));
    let all = [
        watches.of::<ClientMount>(Some(node), everything.clone()),
        watches.of::<NnfNodeBlockStorage>(Some(node), everything.clone()),
        watches.of::<NnfNodeStorage>(Some(node), everything.clone()),
        watches.of::<NnfNode>(Some(node), everything.clone()),
        watches.of::<NnfLustreMgt>(Some(node), everything.clone()),
        watches.of::<NnfStorageProfile>(None, everything),
        watches.of::<SystemConfiguration>(Some(SYSTEM_CONFIGURATION), one),
    ];
    stream::select_all(all.into_iter().chain(containers)).boxed()
}

/// What all watches share.
struct Watches {
    client: Client,
    health: WatchHealth,
}

impl Watches {
    fn of<K: Cached>(&self, namespace: Option<&str>, config: Config) -> BoxStream<'static, Update> {
        let resource = ApiResource::erase::<K>(&());
        let watched = Watched { resource, namespace: namespace.map(str::to_owned), config };
        let health = self.health.clone();
        let events = watch(self.client.clone(), watched).map(move |event| {
            let event = event.of::<K>();
            health.log(&event);
            Update(Box::new(move |cache| cache.take(event)))
        });
        events.boxed()
    }
}

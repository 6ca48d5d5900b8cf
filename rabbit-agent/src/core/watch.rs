//! Watches on the API, one per kind: the rabbit's own namespace, the SystemConfiguration, and the profiles.

use api::{
    ClientMount, NnfDataMovement, NnfLustreMgt, NnfNode, NnfNodeBlockStorage, NnfNodeStorage,
    NnfStorageProfile, NodeContainers, SystemConfiguration, names::SYSTEM_CONFIGURATION,
};
use controller::{WatchHealth, updates, updates_if_served};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::{Client, runtime::watcher::Config};
use storage::desired::NodeName;

use crate::core::{Cache, Cached, Wake};

/// A change to the cache that a watch or another task found.
pub type Update = controller::Update<Cache, Wake>;

/// Watches everything that concerns this rabbit, without end. The log reports each failure once, and the watches retry.
/// Watches NodeContainers only if the agent has a directory for job packages (`has_packages`).
pub fn watch_all(
    client: &Client,
    node: &NodeName,
    has_packages: bool,
) -> BoxStream<'static, Update> {
    let watches = Watches { client, health: WatchHealth::default() };
    let node = Some(node.as_str());
    let everything = Config::default();
    let only_default = Config::default().fields(&format!("metadata.name={SYSTEM_CONFIGURATION}"));
    let containers =
        has_packages.then(|| watches.updates_of::<NodeContainers>(node, everything.clone()));
    let all = [
        watches.updates_of::<ClientMount>(node, everything.clone()),
        watches.updates_of::<NnfNodeBlockStorage>(node, everything.clone()),
        watches.updates_of::<NnfNodeStorage>(node, everything.clone()),
        watches.updates_of::<NnfNode>(node, everything.clone()),
        watches.updates_of::<NnfLustreMgt>(node, everything.clone()),
        // A site whose CRDs are older than Warren's data movement may lack the kind.
        updates_if_served::<NnfDataMovement, _, _>(client, &watches.health, node, Cache::apply),
        watches.updates_of::<NnfStorageProfile>(None, everything),
        watches.updates_of::<SystemConfiguration>(Some(SYSTEM_CONFIGURATION), only_default),
    ];
    stream::select_all(all.into_iter().chain(containers)).boxed()
}

/// The client and the health that all watches use.
struct Watches<'a> {
    client: &'a Client,
    health: WatchHealth,
}

impl Watches<'_> {
    fn updates_of<K: Cached>(
        &self,
        namespace: Option<&str>,
        config: Config,
    ) -> BoxStream<'static, Update> {
        updates::<K, _, _>(self.client, &self.health, namespace, config, Cache::apply)
    }
}

//! The machine's layout: one watch on the SystemConfiguration.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::SystemConfiguration;
use api::names::{STORAGE_NAMESPACE, SYSTEM_CONFIGURATION};
use fanout::{Change, follow, resource};
use kube::Client;
use kube::runtime::watcher;
use tokio::sync::watch::Sender;

use crate::hub::Hub;

/// Watches the SystemConfiguration, until dropped; `nodes` hears the names of all nodes.
pub(crate) async fn watch(client: Client, hub: Arc<Hub>, nodes: Sender<BTreeSet<String>>) {
    let resource = resource::<SystemConfiguration>();
    let only = watcher::Config::default().fields(&format!("metadata.name={SYSTEM_CONFIGURATION}"));
    let namespace = Some(STORAGE_NAMESPACE);
    follow(client, namespace, &resource, only, hub.exchange(), |change| {
        let object = match change {
            Change::Applied(object) => Some(object),
            Change::Deleted(_) => None,
            Change::Listed(mut objects) => objects.pop(),
        };
        let configuration =
            object.and_then(|object| match object.try_parse::<SystemConfiguration>() {
                Ok(configuration) => Some(configuration),
                Err(error) => {
                    log::warn!(error:% = error; "read SystemConfiguration default/default");
                    None
                }
            });
        let names = hub.configure(configuration.as_ref());
        if let Some(gap) = hub.gap().filter(|_| configuration.is_some()) {
            log::warn!("{gap}");
        }
        nodes.send_replace(names);
    })
    .await;
}

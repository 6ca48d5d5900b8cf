//! Watches the SystemConfiguration, which names the system's rabbits and computes.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::SystemConfiguration;
use api::names::{STORAGE_NAMESPACE, SYSTEM_CONFIGURATION};
use controller::{Event, Watched};
use fanout::{follow, resource};
use kube::Client;
use kube::runtime::watcher;
use tokio::sync::watch::Sender;

use crate::hub::Hub;

/// Watches the SystemConfiguration until this future is dropped, and sends the names of all nodes to `nodes`.
pub(crate) async fn watch(client: Client, hub: Arc<Hub>, nodes: Sender<BTreeSet<String>>) {
    let config =
        watcher::Config::default().fields(&format!("metadata.name={SYSTEM_CONFIGURATION}"));
    let (resource, namespace) =
        (resource::<SystemConfiguration>(), Some(STORAGE_NAMESPACE.to_owned()));
    let watched = Watched { resource, namespace, config };
    follow(client, watched, hub.exchange(), |event| {
        let item = match event.into_kind::<SystemConfiguration>() {
            Event::Applied(item) => Some(item),
            Event::Deleted(_) => None,
            Event::Listed(mut items) => items.pop(),
            Event::Failing(_) | Event::Working => return,
        };
        let configuration = item.and_then(|item| match item {
            Ok(configuration) => Some(configuration),
            Err(unreadable) => {
                log::warn!(error = unreadable.why; "read SystemConfiguration default/default");
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

//! Starts sessions: lists a node's ClientMounts from the API before the node receives any message.
//!
//! The node may have been connected to another coordinator, whose watch was further ahead. If the node now received
//! an older set of objects, it would unmount newer mounts, and would mount again what it has already unmounted. So the
//! coordinator lists the ClientMounts in the node's Kubernetes namespace after the node has connected, and sends
//! nothing to the node until the watch knows all objects of that list.

use std::sync::Arc;

use api::ClientMount;
use apiclient::{Delays, plain};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::exchange::Exchange;
use crate::fanout::Listing;
use crate::object::MountObject;
use crate::requests::{for_each, with_timeout};
use crate::watch::resource;

/// Number of lists that run at the same time: all nodes of a machine may connect at once.
const READERS: usize = 16;

/// Starts the session of every node that connects, until this future is dropped.
pub async fn start_sessions(client: Client, exchange: Arc<Exchange>) {
    let permits = Arc::new(Semaphore::new(READERS));
    let next = || exchange.take_waiting_session();
    for_each(next, |node| {
        let (client, exchange, permits) = (client.clone(), exchange.clone(), permits.clone());
        async move { start_session(&client, &exchange, &permits, &node).await }
    })
    .await;
}

async fn start_session(client: &Client, exchange: &Exchange, permits: &Semaphore, node: &str) {
    let (mut delays, mut ready) = (Delays::default(), exchange.ready());
    while let Some(epoch) = exchange.waiting_session(node) {
        let listed = {
            let _permit = permits.acquire().await;
            list(client, node).await
        };
        let problem = match listed {
            Ok(listing) if exchange.start_session(node, epoch, &listing) => continue,
            Ok(_) => "the watch on ClientMounts is behind the API".to_owned(),
            Err(error) => format!("list ClientMounts of one node: {}", plain(&error)),
        };
        if exchange.is_new_problem(&problem) {
            log::warn!(node; "{problem}; nodes that connect wait, and the coordinator tries again");
        }
        tokio::select! {
            () = sleep(delays.next_delay()) => {}
            _ = ready.changed() => delays = Delays::default(),
        }
    }
}

async fn list(client: &Client, node: &str) -> kube::Result<Listing> {
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), node, &resource::<ClientMount>());
    // Without a resourceVersion the API answers with its newest state.
    let list = with_timeout(api.list(&ListParams::default())).await?;
    // Skips unreadable objects: the watch skips them too, and logs them.
    let objects =
        list.items.into_iter().filter_map(|object| MountObject::read(object).ok()).collect();
    Ok(Listing { version: list.metadata.resource_version.unwrap_or_default(), objects })
}

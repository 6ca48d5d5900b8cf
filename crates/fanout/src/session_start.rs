//! Starts sessions: the API lists a node's ClientMounts before the node receives what the watch knows of them.
//!
//! The node may come from another coordinator, whose watch was further on. With an older list it would unmount what is missing
//! there, and mount again what was unmounted since. So the coordinator lists the node's namespace after the node connected, and
//! sends nothing to the node until the watch knows all of that list.

use std::sync::Arc;

use api::ClientMount;
use apiclient::plain;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::backoff::{Backoff, REQUEST_TIMEOUT};
use crate::exchange::Exchange;
use crate::fanout::Listing;
use crate::object::MountObject;
use crate::tasks::next_while_running;
use crate::watch::resource;

/// How many lists run at the same time: all nodes of a machine may connect at once.
const READERS: usize = 16;

/// Starts the session of every node that connects, until dropped.
pub async fn start_sessions(client: Client, exchange: Arc<Exchange>) {
    let turns = Arc::new(Semaphore::new(READERS));
    let mut readers = JoinSet::new();
    loop {
        let node = next_while_running(&mut readers, exchange.take_waiting_session()).await;
        let (client, exchange, turns) = (client.clone(), exchange.clone(), turns.clone());
        readers.spawn(async move { start_session(&client, &exchange, &turns, &node).await });
    }
}

async fn start_session(client: &Client, exchange: &Exchange, turns: &Semaphore, node: &str) {
    let (mut backoff, mut ready) = (Backoff::default(), exchange.ready());
    while let Some(epoch) = exchange.waiting_session(node) {
        let listed = {
            let _turn = turns.acquire().await;
            list(client, node).await
        };
        let problem = match listed {
            Ok(listing) if exchange.start_session(node, epoch, &listing) => continue,
            Ok(_) => "the watch on ClientMounts is behind the API".to_owned(),
            Err(why) => format!("list ClientMounts of one node: {why}"),
        };
        if exchange.is_new_problem(&problem) {
            log::warn!(node; "{problem}; nodes that connect wait, and the coordinator tries again");
        }
        tokio::select! {
            () = sleep(backoff.next()) => {}
            _ = ready.changed() => backoff = Backoff::default(),
        }
    }
}

async fn list(client: &Client, node: &str) -> Result<Listing, String> {
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), node, &resource::<ClientMount>());
    // Without a resourceVersion the API answers with its newest state.
    match timeout(REQUEST_TIMEOUT, api.list(&ListParams::default())).await {
        Ok(Ok(list)) => Ok(Listing {
            version: list.metadata.resource_version.unwrap_or_default(),
            // The watch leaves out unreadable objects as well, and logs them.
            objects: list
                .items
                .into_iter()
                .filter_map(|object| MountObject::read(object).ok())
                .collect(),
        }),
        Ok(Err(error)) => Err(plain(&error)),
        Err(_) => Err(format!("no answer within {} s", REQUEST_TIMEOUT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use http::{Request, Response};
    use kube::client::Body;
    use proto::v1::to_node::Message;
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;
    use crate::fanout::Audience;
    use crate::object::{Key, ProfileObject, tests::mount};

    /// Longer than anything here takes.
    const SOON: Duration = Duration::from_secs(10);

    /// An API that has one ClientMount of n1, of generation 2.
    fn client(asked: &Arc<tokio::sync::Notify>) -> Client {
        let asked = asked.clone();
        let service = service_fn(move |request: Request<Body>| {
            assert!(request.uri().path().ends_with("/namespaces/n1/clientmounts"));
            let item: Value = serde_json::from_slice(&mount("n1", "a", 2, 15).json).unwrap();
            let list = json!({
                "kind": "ClientMountList", "apiVersion": "dataworkflowservices.github.io/v1alpha7",
                "metadata": {"resourceVersion": "20"}, "items": [item],
            });
            asked.notify_one();
            async move { Ok::<_, Infallible>(Response::new(Body::from(list.to_string().into_bytes()))) }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_node_waits_for_a_watch_that_is_behind() {
        let exchange = Arc::new(Exchange::default());
        let key = Key::new("default", "pinned");
        let profile = ProfileObject { key, resource_version: "1".into(), json: Vec::new() };
        exchange.replace_profiles(vec![profile]);
        exchange.replace_mounts(vec![mount("n1", "a", 1, 5)]);
        let notify = exchange.open("n1", 1, Audience::Compute);
        let asked = Arc::new(tokio::sync::Notify::new());
        let sent = async {
            asked.notified().await;
            // It was asked once more, so it has seen that the watch is behind.
            asked.notified().await;
            assert_eq!(exchange.next("n1", 1), Ok(None));
            exchange.apply_mount(mount("n1", "a", 2, 15));
            loop {
                match exchange.next("n1", 1).unwrap() {
                    Some(Message::Desired(desired)) => return desired.resource_version,
                    Some(other) => panic!("{other:?}"),
                    None => notify.notified().await,
                }
            }
        };
        tokio::select! {
            () = start_sessions(client(&asked), exchange.clone()) => {}
            sent = timeout(SOON, sent) => assert_eq!(sent.unwrap(), "15"),
        }
    }
}

//! Asks the API for a node's ClientMounts before the node is told what the watch knows of them.
//!
//! A node that comes may have been told more elsewhere, by a coordinator whose watch was further on: what is missing in a
//! list from yesterday would be unmounted, and what was unmounted since would be mounted again. The list of one namespace,
//! asked for after the node came, tells whether the watch has it all; until it has, the node is told nothing.

use std::sync::Arc;

use api::ClientMount;
use apiclient::plain;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::beside::beside;
use crate::exchange::Exchange;
use crate::fanout::Listing;
use crate::object::MountObject;
use crate::pace::{PATIENCE, Pace};
use crate::watch::resource;

/// Lists asked for at a time: all nodes of a machine may come at once.
const READERS: usize = 16;

/// Lets every node in that comes, until dropped.
pub async fn admit_newcomers(client: Client, exchange: Arc<Exchange>) {
    let turns = Arc::new(Semaphore::new(READERS));
    let mut readers = JoinSet::new();
    loop {
        let node = beside(&mut readers, exchange.take_newcomer()).await;
        let (client, exchange, turns) = (client.clone(), exchange.clone(), turns.clone());
        readers.spawn(async move { admit(&client, &exchange, &turns, &node).await });
    }
}

async fn admit(client: &Client, exchange: &Exchange, turns: &Semaphore, node: &str) {
    let (mut pace, mut ready) = (Pace::default(), exchange.ready());
    while let Some(epoch) = exchange.newcomer(node) {
        let listed = {
            let _turn = turns.acquire().await;
            list(client, node).await
        };
        let problem = match listed {
            Ok(listing) if exchange.admit(node, epoch, &listing) => continue,
            Ok(_) => "the watch on ClientMounts is behind the API".to_owned(),
            Err(why) => format!("list ClientMounts of one node: {why}"),
        };
        if exchange.is_news(&problem) {
            log::warn!(node; "{problem}; nodes that connect wait, and it is looked again");
        }
        tokio::select! {
            () = sleep(pace.next()) => {}
            _ = ready.changed() => pace = Pace::default(),
        }
    }
}

async fn list(client: &Client, node: &str) -> Result<Listing, String> {
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), node, &resource::<ClientMount>());
    // Without a resourceVersion the answer is as new as the question.
    match timeout(PATIENCE, api.list(&ListParams::default())).await {
        Ok(Ok(list)) => Ok(Listing {
            version: list.metadata.resource_version.unwrap_or_default(),
            // What cannot be read the watch has left out as well, and said so.
            objects: list.items.into_iter().filter_map(|it| MountObject::read(it).ok()).collect(),
        }),
        Ok(Err(error)) => Err(plain(&error)),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
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
        let bell = exchange.open("n1", 1, Audience::Compute);
        let asked = Arc::new(tokio::sync::Notify::new());
        let told = async {
            asked.notified().await;
            // It was asked once more, so it has seen that the watch is behind.
            asked.notified().await;
            assert_eq!(exchange.next("n1", 1), Ok(None));
            exchange.apply_mount(mount("n1", "a", 2, 15));
            loop {
                match exchange.next("n1", 1).unwrap() {
                    Some(Message::Desired(desired)) => return desired.resource_version,
                    Some(other) => panic!("{other:?}"),
                    None => bell.notified().await,
                }
            }
        };
        tokio::select! {
            () = admit_newcomers(client(&asked), exchange.clone()) => {}
            told = timeout(SOON, told) => assert_eq!(told.unwrap(), "15"),
        }
    }
}

//! The way to the Kubernetes API without a coordinator: one watch on this node's ClientMounts, and patches of them.
//!
//! It gives the agent the same events as [`crate::link`], and takes the same reports. At rest the watch is one idle
//! connection: no bookmarks are asked for, and the server is asked to keep the watch open for about an hour.

use std::{sync::Arc, time::Duration};

use apiclient::Address;
use daemon::vital;
use fanout::{Audience, Ended, Exchange, Scope, ask_profiles, client_mounts, write_back};
use kube::{Client, runtime::watcher};
use proto::v1::{FromNode, from_node, to_node::Message};
use storage::desired::NodeName;
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
};

use crate::{
    link::{LinkEvent, event_of},
    outbox::Outbox,
};

/// There is only ever one session with oneself.
const EPOCH: u64 = 1;
/// Shortest and longest time for which a watch is asked to stay open: all nodes of a machine may start in one second, and
/// must not come back in one.
const WATCH: (Duration, Duration) = (Duration::from_secs(50 * 60), Duration::from_secs(70 * 60));

/// How a node watches the API at `address`.
#[must_use]
pub fn watch_config(address: &Address) -> watcher::Config {
    // A bookmark would wake the node every minute. Without them a watch that goes on after an hour of silence may be told
    // that it is too late, and then reads one namespace's list.
    let config = watcher::Config::default().disable_bookmarks();
    match address {
        // The kernel tells when the other end is gone.
        Address::Unix(_) | Address::InCluster | Address::Server(_) => {
            let (shortest, longest) = WATCH;
            let long = shortest + (longest - shortest).mul_f64(fastrand::f64());
            config.timeout(u32::try_from(long.as_secs()).unwrap_or(u32::MAX))
        }
        // Its connections are not ours to probe: the watch has to be asked for again now and then.
        Address::Kubeconfig(_) => config,
    }
}

/// Carries events and reports between the API and the agent, until nobody listens to events any more.
pub async fn run(
    client: Client,
    config: watcher::Config,
    node: NodeName,
    outbox: Arc<Outbox>,
    events: mpsc::Sender<LinkEvent>,
) {
    let exchange = Arc::new(Exchange::new(Scope::OneCompute));
    let bell = exchange.open(node.as_str(), EPOCH, Audience::Compute);
    let mut work = JoinSet::new();
    let profiles = ask_profiles(client.clone(), exchange.clone(), Scope::OneCompute);
    work.spawn(vital("who asks for profiles", profiles));
    work.spawn(vital("who writes statuses", write_back(client.clone(), exchange.clone())));
    let reports = pass_reports(exchange.clone(), outbox.clone(), outbox.begin());
    work.spawn(vital("who passes reports on", reports));
    work.spawn(vital("who follows the watch", follow_health(exchange.clone(), outbox.clone())));
    let (watching, namespace) = (exchange.clone(), node.clone());
    work.spawn(vital("the watch", async move {
        client_mounts(client, Some(namespace.as_str()), config, watching).await;
    }));
    if events.send(LinkEvent::Up).await.is_ok() {
        tell(&exchange, &node, &bell, &outbox, &events).await;
    }
}

async fn tell(
    exchange: &Exchange,
    node: &NodeName,
    bell: &Notify,
    outbox: &Outbox,
    events: &mpsc::Sender<LinkEvent>,
) {
    loop {
        match exchange.next(node.as_str(), EPOCH) {
            Ok(Some(message)) => {
                if matches!(message, Message::Synced(_)) && exchange.failing().is_empty() {
                    heard(outbox);
                }
                let Some(event) = event_of(message) else { continue };
                if events.send(event).await.is_err() {
                    return;
                }
            }
            Ok(None) => bell.notified().await,
            Err(Ended) => return,
        }
    }
}

/// The API is there, and all it has was read.
fn heard(outbox: &Outbox) {
    outbox.welcome();
    outbox.synced();
}

/// What the node reports is written; its health has no place in the API.
async fn pass_reports(exchange: Arc<Exchange>, outbox: Arc<Outbox>, connection: u64) {
    while let Some(FromNode { message }) = outbox.next(connection).await {
        let Some(from_node::Message::Report(report)) = message else { continue };
        if let Err(error) = exchange.report(&report) {
            log::warn!(
                "the status of ClientMount {}/{} is not written: {error}",
                report.namespace,
                report.name
            );
        }
    }
}

/// When the API is there again everything is reported again: it may have lost what was written last.
async fn follow_health(exchange: Arc<Exchange>, outbox: Arc<Outbox>) {
    loop {
        exchange.health_changed().await;
        if exchange.failing().is_empty() {
            heard(&outbox);
        } else {
            outbox.lost();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_the_kernel_guards_stays_open_for_about_an_hour() {
        for address in ["unix:///run/a.sock", "https://api:6443", "in-cluster"] {
            let config = watch_config(&address.parse().unwrap());
            assert!((3000..=4200).contains(&config.timeout.unwrap()), "{address}");
            assert!(!config.bookmarks);
        }
        assert_eq!(watch_config(&Address::Kubeconfig(None)).timeout, None);
    }
}

//! The controllers that run in the coordinator beside the nodes' sessions: one line switches each on.
//!
//! A controller is a future without an end of its own. Whether it runs on a cluster too, where the site's own controllers may
//! do the same, is said in its line.

use std::collections::BTreeSet;
use std::sync::Arc;

use daemon::vital;
use fanout::Exchange;
use kube::Client;
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;

use crate::namespaces;

/// What controllers share.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) exchange: Arc<Exchange>,
    /// The nodes that the SystemConfiguration names.
    pub(crate) nodes: Receiver<BTreeSet<String>>,
    /// The API is ours: nobody else's controllers work on it.
    pub(crate) is_standalone: bool,
}

/// Starts the controllers.
pub(crate) fn start(client: &Client, parts: Parts, work: &mut JoinSet<()>) {
    let Parts { exchange, nodes, is_standalone } = parts;
    let kept = namespaces::keep(client.clone(), exchange, nodes);
    run(work, is_standalone, "the namespaces of nodes", kept);
}

fn run(
    work: &mut JoinSet<()>,
    is_on: bool,
    name: &'static str,
    controller: impl Future<Output = ()> + Send + 'static,
) {
    if is_on {
        work.spawn(vital(name, controller));
    }
}

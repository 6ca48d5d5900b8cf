//! Creates one Kubernetes namespace per node, for its ClientMounts. At a site with the DWS controllers, their SystemConfiguration
//! controller creates them. The coordinator does where it serves the API itself or drives Workflows, also for nodes that are added
//! later, and again after a namespace was deleted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use apiclient::{is_refusal, plain};
use controller::{Event, ensure_namespace};
use fanout::{Exchange, everywhere, follow};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, ResourceExt};
use tokio::sync::watch::{Receiver, Sender};

const RETRY: Duration = Duration::from_secs(5);

/// Names of the namespaces that exist; `None` until the API has listed them.
type Known = Option<BTreeSet<String>>;

/// Maintains a namespace for every node, until the sender of `nodes` is gone.
pub(crate) async fn maintain(
    client: Client,
    exchange: Arc<Exchange>,
    nodes: Receiver<BTreeSet<String>>,
) {
    let known = Sender::new(None);
    let create = create_missing(client.clone(), nodes, known.subscribe());
    let update = |event| known.send_modify(|known| update(known, event));
    tokio::select! {
        () = follow(client, everywhere::<Namespace>(), &exchange, update) => {}
        () = create => {}
    }
}

fn update(known: &mut Known, event: Event) {
    if matches!(event, Event::Failing(_) | Event::Working) {
        return;
    }
    let names = known.get_or_insert_default();
    match event {
        Event::Applied(Ok(object)) => {
            names.insert(object.name_any());
        }
        Event::Deleted(Ok(object)) => {
            names.remove(&object.name_any());
        }
        Event::Listed(items) => {
            *names = items.iter().flatten().map(ResourceExt::name_any).collect();
        }
        Event::Applied(Err(_)) | Event::Deleted(Err(_)) | Event::Failing(_) | Event::Working => {}
    }
}

/// Creates missing namespaces whenever the nodes or the known namespaces change.
async fn create_missing(
    client: Client,
    mut nodes: Receiver<BTreeSet<String>>,
    mut known: Receiver<Known>,
) {
    let mut refused = BTreeSet::new();
    loop {
        let names = nodes.borrow_and_update().clone();
        let missing: Vec<String> = match &*known.borrow_and_update() {
            Some(known) => names.difference(known).cloned().collect(),
            None => Vec::new(),
        };
        let mut failed = false;
        for name in missing {
            if refused.contains(&name) {
                continue;
            }
            match ensure_namespace(&client, &name).await {
                Ok(()) => {}
                Err(error) if is_refusal(&error) => {
                    log::warn!(node = name.as_str(), error = plain(&error); "create namespace: correct the name in the SystemConfiguration");
                    refused.insert(name);
                }
                Err(error) => {
                    log::warn!(node = name.as_str(), error = plain(&error); "create namespace; the coordinator tries again");
                    failed = true;
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY), if failed => {}
            _ = known.changed() => {}
            changed = nodes.changed() => if changed.is_err() {
                return;
            }
        }
    }
}

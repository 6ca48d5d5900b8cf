//! Namespaces of nodes. ClientMounts live in a namespace named like their node. At a site the central controller of
//! SystemConfiguration makes those namespaces; standalone there is none, so the coordinator does, and makes anew what
//! somebody deletes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use apiclient::plain;
use controller::{Event, Watched};
use fanout::{Exchange, follow, resource};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch::{Receiver, Sender};

const RETRY: Duration = Duration::from_secs(5);

/// Names of namespaces; None until they were listed.
type Known = Option<BTreeSet<String>>;

/// Keeps the namespace of every node it hears of, until the sender is gone.
pub(crate) async fn keep(
    client: Client,
    exchange: Arc<Exchange>,
    nodes: Receiver<BTreeSet<String>>,
) {
    let known = Sender::new(None);
    let (resource, config) = (resource::<Namespace>(), watcher::Config::default());
    let watched = Watched { resource, namespace: None, config };
    let make = make(Api::all(client.clone()), nodes, known.subscribe());
    let note = |event| known.send_modify(|known| note(known, event));
    tokio::select! {
        () = follow(client, watched, &exchange, note) => {}
        () = make => {}
    }
}

fn note(known: &mut Known, event: Event) {
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

/// Makes what is missing whenever something is said to be wanted, or to be there.
async fn make(
    api: Api<Namespace>,
    mut nodes: Receiver<BTreeSet<String>>,
    mut known: Receiver<Known>,
) {
    let mut refused = BTreeSet::new();
    loop {
        let wanted = nodes.borrow_and_update().clone();
        let missing: Vec<String> = match &*known.borrow_and_update() {
            Some(known) => wanted.difference(known).cloned().collect(),
            None => Vec::new(),
        };
        let mut failed = false;
        for name in missing {
            if refused.contains(&name) {
                continue;
            }
            match make_one(&api, &name).await {
                Ok(()) => {}
                Err(error) if is_refusal(&error) => {
                    log::warn!(node = name.as_str(), error = plain(&error); "create namespace: correct the name in the SystemConfiguration");
                    refused.insert(name);
                }
                Err(error) => {
                    log::warn!(node = name.as_str(), error = plain(&error); "create namespace, will be retried");
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

async fn make_one(api: &Api<Namespace>, name: &str) -> kube::Result<()> {
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    match api.create(&PostParams::default(), &namespace).await {
        Ok(_) => Ok(()),
        // Also while it is being deleted: its end is told, and it is missing then.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error),
    }
}

/// A name that can be no namespace stays so.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 422))
}

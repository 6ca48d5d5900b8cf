//! Namespaces of nodes. ClientMounts live in a namespace named like their node. At a site the central controller of
//! SystemConfiguration makes those namespaces; standalone there is none, so the coordinator does.

use std::collections::BTreeSet;
use std::time::Duration;

use apiclient::plain;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::watch::Receiver;

const RETRY: Duration = Duration::from_secs(5);

/// Makes the namespace of every node it hears of, until the sender is gone.
pub(crate) async fn create(client: Client, mut nodes: Receiver<BTreeSet<String>>) {
    let api: Api<Namespace> = Api::all(client);
    let mut made = BTreeSet::new();
    while nodes.changed().await.is_ok() {
        let wanted = nodes.borrow_and_update().clone();
        let mut failed = false;
        for name in wanted {
            if made.contains(&name) {
                continue;
            }
            match create_one(&api, &name).await {
                Ok(()) => {
                    made.insert(name);
                }
                Err(error) if is_refusal(&error) => {
                    log::warn!(node = name.as_str(), error = plain(&error); "create namespace: correct the name in the SystemConfiguration");
                    made.insert(name);
                }
                Err(error) => {
                    log::warn!(node = name.as_str(), error = plain(&error); "create namespace, will be retried");
                    failed = true;
                }
            }
        }
        if failed {
            tokio::time::sleep(RETRY).await;
            nodes.mark_changed();
        }
    }
}

async fn create_one(api: &Api<Namespace>, name: &str) -> kube::Result<()> {
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    match api.create(&PostParams::default(), &namespace).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error),
    }
}

/// A name that can be no namespace stays so.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 422))
}

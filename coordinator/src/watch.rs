//! One watch per kind on the API, for all nodes together.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::names::{STORAGE_NAMESPACE, SYSTEM_CONFIGURATION};
use api::{ClientMount, NnfStorageProfile, SystemConfiguration};
use apiclient::plain_watch;
use futures::{Stream, StreamExt};
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::watch::Sender;

use crate::hub::Hub;
use crate::object::{Key, MountObject, ProfileObject};

/// What a watch tells, with lists made whole.
#[derive(Debug)]
enum Change {
    Applied(DynamicObject),
    Deleted(DynamicObject),
    Listed(Vec<DynamicObject>),
}

/// Watches ClientMounts of all namespaces, until dropped.
pub(crate) async fn client_mounts(client: Client, hub: Arc<Hub>) {
    let api = Api::all_with(client, &resource::<ClientMount>());
    follow(api, watcher::Config::default(), "ClientMount", &hub, |change| match change {
        Change::Applied(object) => {
            if let Some(object) = read(MountObject::read(object)) {
                hub.apply_mount(object);
            }
        }
        Change::Deleted(object) => {
            hub.remove_mount(&key(&object), &object.uid().unwrap_or_default());
        }
        Change::Listed(objects) => {
            hub.replace_mounts(
                objects.into_iter().filter_map(|object| read(MountObject::read(object))).collect(),
            );
        }
    })
    .await;
}

/// Watches NnfStorageProfiles of all namespaces, until dropped.
pub(crate) async fn profiles(client: Client, hub: Arc<Hub>) {
    let api = Api::all_with(client, &resource::<NnfStorageProfile>());
    follow(api, watcher::Config::default(), "NnfStorageProfile", &hub, |change| match change {
        Change::Applied(object) => {
            if let Some(profile) = read(ProfileObject::read(object)) {
                hub.apply_profile(profile);
            }
        }
        Change::Deleted(object) => hub.remove_profile(&key(&object)),
        Change::Listed(objects) => {
            hub.replace_profiles(
                objects
                    .into_iter()
                    .filter_map(|object| read(ProfileObject::read(object)))
                    .collect(),
            );
        }
    })
    .await;
}

/// Watches the SystemConfiguration, until dropped; `nodes` hears the names of all nodes.
pub(crate) async fn system_configuration(
    client: Client,
    hub: Arc<Hub>,
    nodes: Sender<BTreeSet<String>>,
) {
    let api = Api::namespaced_with(client, STORAGE_NAMESPACE, &resource::<SystemConfiguration>());
    let only = watcher::Config::default().fields(&format!("metadata.name={SYSTEM_CONFIGURATION}"));
    follow(api, only, "SystemConfiguration", &hub, |change| {
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
        nodes.send_replace(names);
    })
    .await;
}

/// The API resource of one of our kinds.
pub(crate) fn resource<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

async fn follow(
    api: Api<DynamicObject>,
    config: watcher::Config,
    kind: &'static str,
    hub: &Hub,
    mut take: impl FnMut(Change),
) {
    let events = watch(api, config).default_backoff();
    let mut events = std::pin::pin!(whole(events));
    while let Some(change) = events.next().await {
        match change {
            Ok(change) => {
                if hub.watch_state(kind, None) {
                    log::info!(kind; "watch again");
                }
                take(change);
            }
            Err(error) => {
                let text = plain_watch(&error);
                if hub.watch_state(kind, Some(text.clone())) {
                    log::warn!(kind, error = text.as_str(); "watch, retried until it works");
                }
            }
        }
    }
}

/// Gathers the objects of a list, so that a list is taken whole or not at all.
fn whole(
    events: impl Stream<Item = watcher::Result<Event<DynamicObject>>>,
) -> impl Stream<Item = watcher::Result<Change>> {
    let mut list = Vec::new();
    events.filter_map(move |event| {
        let change = match event {
            Ok(Event::Apply(object)) => Some(Ok(Change::Applied(object))),
            Ok(Event::Delete(object)) => Some(Ok(Change::Deleted(object))),
            Ok(Event::Init) => {
                list.clear();
                None
            }
            Ok(Event::InitApply(object)) => {
                list.push(object);
                None
            }
            Ok(Event::InitDone) => Some(Ok(Change::Listed(std::mem::take(&mut list)))),
            Err(error) => Some(Err(error)),
        };
        std::future::ready(change)
    })
}

fn key(object: &DynamicObject) -> Key {
    Key::new(&object.namespace().unwrap_or_default(), &object.name_any())
}

fn read<T, E: std::fmt::Display>(object: Result<T, E>) -> Option<T> {
    object.map_err(|error| log::warn!(error:% = error; "skip an object")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use futures::stream;

    fn object(name: &str) -> DynamicObject {
        DynamicObject::new(name, &resource::<ClientMount>())
    }

    #[test]
    fn a_list_that_breaks_off_is_not_taken() {
        let events = stream::iter([
            Ok(Event::Init),
            Ok(Event::InitApply(object("a"))),
            Err(watcher::Error::NoResourceVersion),
            Ok(Event::Init),
            Ok(Event::InitApply(object("b"))),
            Ok(Event::InitApply(object("c"))),
            Ok(Event::InitDone),
            Ok(Event::Delete(object("b"))),
        ]);
        let changes: Vec<_> = block_on(whole(events).collect());
        let told: Vec<_> = changes
            .iter()
            .map(|change| match change {
                Ok(Change::Listed(objects)) => {
                    objects.iter().map(ResourceExt::name_any).collect::<Vec<_>>().join("+")
                }
                Ok(Change::Applied(object)) => format!("applied {}", object.name_any()),
                Ok(Change::Deleted(object)) => format!("deleted {}", object.name_any()),
                Err(_) => "failed".to_owned(),
            })
            .collect();
        assert_eq!(told, ["failed", "b+c", "deleted b"]);
    }
}

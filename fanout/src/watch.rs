//! One watch per kind on the API, with its lists made whole.

use std::sync::Arc;

use api::{ClientMount, NnfStorageProfile};
use apiclient::watch_problem;
use futures::{Stream, StreamExt};
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher as watch;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::time::sleep;

use crate::exchange::Exchange;
use crate::object::{Key, MountObject, ProfileObject};
use crate::pace::Pace;

/// What a watch tells, with lists made whole.
#[derive(Debug)]
pub enum Change {
    /// An object is new or changed.
    Applied(DynamicObject),
    /// An object is no more.
    Deleted(DynamicObject),
    /// These are all there are.
    Listed(Vec<DynamicObject>),
}

/// Watches the ClientMounts of one namespace, or of all, until dropped.
pub async fn client_mounts(
    client: Client,
    namespace: Option<&str>,
    config: watcher::Config,
    exchange: Arc<Exchange>,
) {
    let resource = resource::<ClientMount>();
    let api = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    follow(api, &resource, config, &exchange, |change| match change {
        Change::Applied(object) => {
            if let Some(object) = read(MountObject::read(object)) {
                exchange.apply_mount(object);
            }
        }
        Change::Deleted(object) => {
            exchange.remove_mount(&key(&object), &object.uid().unwrap_or_default());
        }
        Change::Listed(objects) => {
            exchange.replace_mounts(
                objects.into_iter().filter_map(|object| read(MountObject::read(object))).collect(),
            );
        }
    })
    .await;
}

/// Watches NnfStorageProfiles of all namespaces, until dropped.
pub async fn profiles(client: Client, exchange: Arc<Exchange>) {
    let resource = resource::<NnfStorageProfile>();
    let api = Api::all_with(client, &resource);
    follow(api, &resource, watcher::Config::default(), &exchange, |change| match change {
        Change::Applied(object) => {
            if let Some(profile) = read(ProfileObject::read(object)) {
                exchange.apply_profile(profile);
            }
        }
        Change::Deleted(object) => exchange.remove_profile(&key(&object)),
        Change::Listed(objects) => {
            exchange.replace_profiles(
                objects
                    .into_iter()
                    .filter_map(|object| read(ProfileObject::read(object)))
                    .collect(),
            );
        }
    })
    .await;
}

/// The API resource of one of our kinds.
#[must_use]
pub fn resource<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

/// Passes on what a watch tells, until dropped; a failure is said when it begins and when its reason changes.
///
/// After a failure the list is read anew: a watch that goes on where it was says nothing before something changes, and so
/// would not tell that it works.
pub async fn follow(
    api: Api<DynamicObject>,
    resource: &ApiResource,
    config: watcher::Config,
    exchange: &Exchange,
    mut take: impl FnMut(Change),
) {
    let kind = resource.kind.as_str();
    let mut pace = Pace::new();
    loop {
        let mut events = std::pin::pin!(whole(watch(api.clone(), config.clone())));
        while let Some(change) = events.next().await {
            match change {
                Ok(change) => {
                    pace = Pace::new();
                    // What was missed first: who hears that all is well goes by what is known then.
                    take(change);
                    if exchange.watch_state(kind, None) {
                        log::info!(kind; "{kind} is watched again");
                    }
                }
                // The watch went on from too long ago; the list that follows tells what was missed.
                Err(watcher::Error::WatchError(status)) if status.code == 410 => {
                    sleep(pace.next()).await;
                }
                Err(error) => {
                    let text = watch_problem(resource, &error);
                    if exchange.watch_state(kind, Some(text.clone())) {
                        log::warn!(kind; "{text}; everything stays as it is, and it is tried again until it works");
                    }
                    break;
                }
            }
        }
        sleep(pace.next()).await;
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

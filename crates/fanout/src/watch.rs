//! One watch per kind on the API, with its lists made whole.

use std::sync::Arc;

use api::{ClientMount, NnfStorageProfile};
use apiclient::{WatchBackoff, listening, watch_problem};
use futures::{Stream, StreamExt};
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher as watch;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::exchange::Exchange;
use crate::object::{Key, MountObject, ProfileObject};
use crate::pace::LAST_DELAY;

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
    follow(client, namespace, &resource, config, &exchange, |change| match change {
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
    let config = watcher::Config::default();
    follow(client, None, &resource, config, &exchange, |change| match change {
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

/// Passes on what a watch tells of one namespace, or of all, until dropped; a failure is said when it begins and when its
/// reason changes.
///
/// After a failure the list is read anew: what came of an API that is older than before, as one restored from a backup, a
/// watch would pass over in silence. That a list works says nothing of the watch: it works once the API has begun it.
pub async fn follow(
    client: Client,
    namespace: Option<&str>,
    resource: &ApiResource,
    config: watcher::Config,
    exchange: &Exchange,
    mut take: impl FnMut(Change),
) {
    let mut backoff = WatchBackoff::default();
    loop {
        let begun = Arc::new(Notify::new());
        let api = heard(client.clone(), namespace, resource, begun.clone());
        let mut events = std::pin::pin!(whole(watch(api, config.clone())));
        loop {
            let event = tokio::select! {
                biased;
                // What was missed first: who hears that all is well goes by what is known then.
                event = events.next() => event,
                () = begun.notified() => {
                    works(resource, exchange);
                    continue;
                }
            };
            match event {
                Some(Ok(change)) => take(change),
                // The watch went on from too long ago; the list that follows tells what was missed.
                Some(Err(watcher::Error::WatchError(status))) if status.code == 410 => break,
                Some(Err(error)) => {
                    fails(resource, exchange, &error);
                    break;
                }
                None => break,
            }
        }
        sleep(backoff.next().unwrap_or(LAST_DELAY)).await;
    }
}

/// The API for one kind; `begun` rings when it has begun a watch.
fn heard(
    client: Client,
    namespace: Option<&str>,
    resource: &ApiResource,
    begun: Arc<Notify>,
) -> Api<DynamicObject> {
    let client = listening(client, move |answer| {
        if answer.watch && answer.status < 300 {
            begun.notify_one();
        }
    });
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    }
}

fn works(resource: &ApiResource, exchange: &Exchange) {
    let kind = resource.kind.as_str();
    if exchange.watch_state(kind, None) {
        log::info!(kind; "{kind} is watched again");
    }
}

fn fails(resource: &ApiResource, exchange: &Exchange, error: &watcher::Error) {
    let (kind, text) = (resource.kind.as_str(), watch_problem(resource, error));
    if exchange.watch_state(kind, Some(text.clone())) {
        log::warn!(kind; "{text}; everything stays as it is, and it is tried again until it works");
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
mod tests;

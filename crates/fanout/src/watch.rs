//! Feeds the watches on the API into an exchange.

use std::sync::Arc;

use api::{ClientMount, NnfStorageProfile};
use controller::{Event, Item, Watched, watch};
use futures::StreamExt;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher::Config;
use kube::{Client, Resource, ResourceExt};

use crate::exchange::Exchange;
use crate::object::{Key, MountObject, ProfileObject};

/// Watches the ClientMounts of all namespaces, until this future is dropped.
pub async fn client_mounts(client: Client, exchange: Arc<Exchange>) {
    follow(client, everywhere::<ClientMount>(), &exchange, |event| match event {
        Event::Applied(object) => {
            if let Some(object) = read(object, MountObject::read) {
                exchange.apply_mount(object);
            }
        }
        Event::Deleted(Ok(object)) => {
            exchange.remove_mount(&key(&object), &object.uid().unwrap_or_default());
        }
        Event::Listed(objects) => exchange.replace_mounts(read_all(objects, MountObject::read)),
        Event::Deleted(Err(_)) | Event::Failing(_) | Event::Working => {}
    })
    .await;
}

/// Watches NnfStorageProfiles of all namespaces, until this future is dropped.
pub async fn profiles(client: Client, exchange: Arc<Exchange>) {
    follow(client, everywhere::<NnfStorageProfile>(), &exchange, |event| match event {
        Event::Applied(object) => {
            if let Some(profile) = read(object, ProfileObject::read) {
                exchange.apply_profile(profile);
            }
        }
        Event::Deleted(Ok(object)) => exchange.remove_profile(&key(&object)),
        Event::Listed(objects) => exchange.replace_profiles(read_all(objects, ProfileObject::read)),
        Event::Deleted(Err(_)) | Event::Failing(_) | Event::Working => {}
    })
    .await;
}

/// Returns the API resource of a kind.
#[must_use]
pub fn resource<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

/// Selects all objects of a kind, in all namespaces.
#[must_use]
pub fn everywhere<K: Resource<DynamicType = ()>>() -> Watched {
    Watched { resource: resource::<K>(), namespace: None, config: Config::default() }
}

/// Passes the events of a watch to `take`, until this future is dropped, and records in the exchange
/// whether the watch works.
pub async fn follow(
    client: Client,
    watched: Watched,
    exchange: &Exchange,
    mut take: impl FnMut(Event),
) {
    let kind = watched.resource.kind.clone();
    let mut events = std::pin::pin!(watch(client, watched));
    while let Some(event) = events.next().await {
        match &event {
            Event::Failing(trouble) => exchange.watch_failed(&kind, trouble),
            Event::Working => exchange.watch_recovered(&kind),
            _ => {}
        }
        take(event);
    }
}

fn key(object: &DynamicObject) -> Key {
    Key::new(&object.namespace().unwrap_or_default(), &object.name_any())
}

/// Reads an object. Returns `None` for an object that cannot be read, and logs the reason.
fn read<T>(item: Item<DynamicObject>, read: fn(DynamicObject) -> Result<T, String>) -> Option<T> {
    read(item.ok()?).map_err(|error| log::warn!(error; "skip an object that cannot be read")).ok()
}

fn read_all<T>(
    items: Vec<Item<DynamicObject>>,
    read_one: fn(DynamicObject) -> Result<T, String>,
) -> Vec<T> {
    items.into_iter().filter_map(|item| read(item, read_one)).collect()
}

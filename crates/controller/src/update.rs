//! Events of watches on several kinds as one stream, for the loop that owns the objects which a controller knows.

use std::fmt;

use futures::{StreamExt, stream::BoxStream};
use kube::{Client, api::ApiResource, runtime::watcher::Config};

use crate::{
    object::Object,
    watch::{Event, WatchHealth, Watched, watch},
};

type Apply<S, W> = dyn FnOnce(&mut S) -> Vec<W> + Send;

/// A change to the objects that a controller knows, whatever their kind.
pub struct Update<S, W>(Box<Apply<S, W>>);

impl<S, W> Update<S, W> {
    pub fn new(apply: impl FnOnce(&mut S) -> Vec<W> + Send + 'static) -> Self {
        Self(Box::new(apply))
    }

    /// Makes the change, and returns what to wake.
    pub fn apply(self, known: &mut S) -> Vec<W> {
        (self.0)(known)
    }
}

impl<S, W> fmt::Debug for Update<S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Update").finish_non_exhaustive()
    }
}

/// Watches objects of one kind without end; `take` adds each event to what the controller knows. `health` logs each failure
/// once, and the watch retries.
pub fn updates<K: Object, S: 'static, W: 'static>(
    client: &Client,
    health: &WatchHealth,
    namespace: Option<&str>,
    config: Config,
    take: fn(&mut S, Event<K>) -> Vec<W>,
) -> BoxStream<'static, Update<S, W>> {
    let resource = ApiResource::erase::<K>(&());
    let watched = Watched { resource, namespace: namespace.map(str::to_owned), config };
    let health = health.clone();
    let events = watch(client.clone(), watched).map(move |event| {
        let event = event.of::<K>();
        health.log(&event);
        Update::new(move |known| take(known, event))
    });
    events.boxed()
}

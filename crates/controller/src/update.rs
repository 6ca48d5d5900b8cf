//! Joins the events of watches on several kinds to one stream. The controller's main loop, which owns all known
//! objects, reads this stream.

use std::fmt;

use futures::{Stream, StreamExt, stream::BoxStream};
use kube::{Client, api::ApiResource, runtime::watcher::Config};

use crate::{
    object::Object,
    watch::{Event, Trouble, WatchHealth, Watched, watch},
};

type Apply<S, W> = dyn FnOnce(&mut S) -> Vec<W> + Send;

/// A change to a controller's known objects; the changed object may be of any kind.
pub struct Update<S, W>(Box<Apply<S, W>>);

impl<S, W> Update<S, W> {
    pub fn new(apply: impl FnOnce(&mut S) -> Vec<W> + Send + 'static) -> Self {
        Self(Box::new(apply))
    }

    /// Applies the change, and returns the keys to wake in the queue.
    pub fn apply(self, known: &mut S) -> Vec<W> {
        (self.0)(known)
    }
}

impl<S, W> fmt::Debug for Update<S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Update").finish_non_exhaustive()
    }
}

/// Watches the objects of one kind without end; `take` applies each event to the controller's known objects. A watch
/// that fails retries, and `health` logs each failure once.
pub fn updates<K: Object, S: 'static, W: 'static>(
    client: &Client,
    health: &WatchHealth,
    namespace: Option<&str>,
    config: Config,
    take: fn(&mut S, Event<K>) -> Vec<W>,
) -> BoxStream<'static, Update<S, W>> {
    let resource = ApiResource::erase::<K>(&());
    let watched = Watched { resource, namespace: namespace.map(str::to_owned), config };
    apply_events(watch(client.clone(), watched), health, take)
}

/// Like [`updates`], for a kind of another project, whose CRD may be missing. While the API does not serve the kind,
/// delivers empty lists, and logs nothing. The watch notices when the API begins to serve the kind.
pub fn updates_if_served<K: Object, S: 'static, W: 'static>(
    client: &Client,
    health: &WatchHealth,
    namespace: Option<&str>,
    take: fn(&mut S, Event<K>) -> Vec<W>,
) -> BoxStream<'static, Update<S, W>> {
    let (resource, config) = (ApiResource::erase::<K>(&()), Config::default());
    let watched = Watched { resource, namespace: namespace.map(str::to_owned), config };
    apply_events(watch(client.clone(), watched).map(none_unless_served), health, take)
}

fn none_unless_served(event: Event) -> Event {
    match event {
        Event::Failing(Trouble::Unserved(_)) => Event::Listed(Vec::new()),
        event => event,
    }
}

fn apply_events<K: Object, S: 'static, W: 'static>(
    events: impl Stream<Item = Event> + Send + 'static,
    health: &WatchHealth,
    take: fn(&mut S, Event<K>) -> Vec<W>,
) -> BoxStream<'static, Update<S, W>> {
    let health = health.clone();
    let events = events.map(move |event| {
        let event = event.into_kind::<K>();
        health.log(&event);
        Update::new(move |known| take(known, event))
    });
    events.boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_an_unserved_kind_an_empty_list_is_delivered_and_every_other_trouble_is_passed_on() {
        let unserved = Event::Failing(Trouble::Unserved("no such kind".to_owned()));
        assert!(matches!(none_unless_served(unserved), Event::Listed(items) if items.is_empty()));
        let refused = Event::Failing(Trouble::Kind("no right".to_owned()));
        assert!(matches!(none_unless_served(refused), Event::Failing(Trouble::Kind(_))));
    }
}

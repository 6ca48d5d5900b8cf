//! Watches on the API, one for each kind.

mod health;

use std::{fmt, pin::Pin, sync::Arc};

use apiclient::{WatchBackoff, observe_answers};
use futures::{Stream, StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    runtime::watcher::{self, Config, watcher},
};
use tokio::{sync::Notify, time::sleep};

use crate::object::Object;

pub use self::health::{Trouble, WatchHealth};

#[derive(Debug)]
pub enum Event<K = DynamicObject> {
    /// The complete list of all objects that exist.
    Listed(Vec<Item<K>>),
    /// An object is new or changed.
    Applied(Item<K>),
    /// An object was deleted.
    Deleted(Item<K>),
    /// The watch fails, so known objects may be out of date. The watch retries by itself.
    Failing(Trouble),
    /// The watch works again.
    Working,
}

/// An object, or only its metadata if the object cannot be decoded as its kind.
pub type Item<K> = Result<K, Unreadable>;

/// An object that exists, but cannot be decoded as its kind. All fields except for its metadata are unknown, not empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Unreadable {
    pub metadata: Box<ObjectMeta>,
    pub why: String,
}

/// The kind and namespace to watch.
#[derive(Debug, Clone)]
pub struct Watched {
    pub resource: ApiResource,
    /// Namespace to watch, or `None` for all namespaces.
    pub namespace: Option<String>,
    /// Selectors, whether the API sends bookmarks, and the time after which the watch is renewed.
    pub config: Config,
}

impl Watched {
    fn api(&self, client: Client) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &self.resource),
            None => Api::all_with(client, &self.resource),
        }
    }
}

impl Event {
    /// Returns the event with objects of the kind `K`.
    #[must_use]
    pub fn into_kind<K: Object>(self) -> Event<K> {
        match self {
            Self::Listed(items) => Event::Listed(items.into_iter().map(read).collect()),
            Self::Applied(item) => Event::Applied(read(item)),
            Self::Deleted(item) => Event::Deleted(read(item)),
            Self::Failing(trouble) => Event::Failing(trouble),
            Self::Working => Event::Working,
        }
    }
}

fn read<K: Object>(item: Item<DynamicObject>) -> Item<K> {
    let object = item?;
    let metadata = Box::new(object.metadata.clone());
    object.try_parse().map_err(|error| Unreadable { metadata, why: error.to_string() })
}

/// Watches until the stream is dropped. The stream delivers complete lists only.
///
/// After a failure the watch begins with a list. If the API was restored from a backup, it has lost objects, and a
/// watch that resumed from its last resourceVersion would not report the loss. A list that succeeds is no sign that the
/// watch works: the watch works once the API has accepted the watch request.
pub fn watch(client: Client, watched: Watched) -> impl Stream<Item = Event> + Send + 'static {
    stream::unfold(Watch::new(client, watched), async |mut watch| {
        let event = watch.next().await;
        Some((event, watch))
    })
}

type Events = Pin<Box<dyn Stream<Item = watcher::Result<watcher::Event<DynamicObject>>> + Send>>;

struct Watch {
    client: Client,
    watched: Watched,
    backoff: WatchBackoff,
    running: Option<Events>,
    /// Notified when the API has accepted a watch request.
    begun: Arc<Notify>,
    list: Vec<DynamicObject>,
    is_first: bool,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("watched", &self.watched).finish_non_exhaustive()
    }
}

impl Watch {
    fn new(client: Client, watched: Watched) -> Self {
        Self {
            client,
            watched,
            backoff: WatchBackoff::default(),
            running: None,
            begun: Arc::default(),
            list: Vec::new(),
            is_first: true,
        }
    }

    async fn next(&mut self) -> Event {
        loop {
            let begun = Arc::clone(&self.begun);
            let Some(events) = &mut self.running else {
                self.start().await;
                continue;
            };
            let event = tokio::select! {
                biased;
                // Delivers pending events first, so that the store is current when `Event::Working` arrives.
                event = events.next() => event,
                () = begun.notified() => return Event::Working,
            };
            match event {
                Some(Ok(event)) => {
                    if let Some(event) = self.collect_list(event) {
                        return event;
                    }
                }
                Some(Err(error)) => {
                    self.running = None;
                    if let Some(trouble) = Trouble::from_error(&self.watched.resource, &error) {
                        return Event::Failing(trouble);
                    }
                }
                None => self.running = None,
            }
        }
    }

    async fn start(&mut self) {
        if !std::mem::take(&mut self.is_first) {
            sleep(self.backoff.next().unwrap_or_default()).await;
        }
        self.begun = Arc::default();
        let begun = Arc::clone(&self.begun);
        let client = observe_answers(self.client.clone(), move |answer| {
            if answer.watch && answer.status < 300 {
                begun.notify_one();
            }
        });
        let api = self.watched.api(client);
        self.running = Some(watcher(api, self.watched.config.clone()).boxed());
    }

    /// Collects the objects of a list until it is complete; returns all other events unchanged.
    fn collect_list(&mut self, event: watcher::Event<DynamicObject>) -> Option<Event> {
        match event {
            watcher::Event::Apply(object) => Some(Event::Applied(Ok(object))),
            watcher::Event::Delete(object) => Some(Event::Deleted(Ok(object))),
            watcher::Event::Init => {
                self.list.clear();
                None
            }
            watcher::Event::InitApply(object) => {
                self.list.push(object);
                None
            }
            watcher::Event::InitDone => {
                let objects = std::mem::take(&mut self.list);
                Some(Event::Listed(objects.into_iter().map(Ok).collect()))
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Watches. A watch remembers its position in the log of changes and has no queue of its own: a client that reads
//! slowly costs only the memory of one chunk of encoded events. If the log drops changes that the client has not read
//! yet, the watch ends with 410, and the client has to list again, instead of missing events unnoticed.

mod options;

use self::options::Start;
pub(crate) use self::options::WatchOptions;
use super::Target;
use super::list::Selection;
use crate::form::Form;
use crate::object::Stored;
use crate::registry::Resource;
use crate::status::Status;
use crate::store::{Event, Expired, Shared, Verb};
use futures::Stream;
use hyper::body::Bytes;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

/// Largest number of events that one call of `advance` reads from the log.
const LOOK: usize = 64;
/// Size of a chunk of encoded events, in bytes, at which `advance` stops.
const CHUNK: usize = 64 << 10;

struct Watch {
    shared: Arc<Shared>,
    resource: Resource,
    namespace: Option<String>,
    selection: Selection,
    form: Form,
    header: bool,
    signal: Receiver<u64>,
    /// Becomes true when the server that answers this watch shuts down.
    stop: Option<Receiver<bool>>,
    deadline: Option<Instant>,
    initial: std::vec::IntoIter<Arc<Stored>>,
    /// Whether a bookmark marks the end of the initial events.
    mark_initial: bool,
    bookmarks: bool,
    /// Revision up to which all changes have been sent.
    cursor: u64,
    /// Latest revision that an event or bookmark has shown to the client.
    shown: u64,
    /// Reason why the watch cannot begin. It is sent as an ERROR event, because the answer's headers are sent already.
    failure: Option<Status>,
    ended: bool,
}

/// The changes since the cursor.
struct Next {
    /// At most [`LOOK`] of the changes.
    events: Vec<Arc<Event>>,
    /// Revision of the latest change.
    revision: u64,
    /// True when the latest revision that the client knows will leave the log soon: the client then needs a bookmark.
    aged: bool,
    /// True while the definition of the kind is the same as when the watch began.
    same: bool,
}

/// Starts a watch. Answers 400 or 422 for contradictory options, and 504 when the client knows a later revision than
/// the server. For an expired revision the watch starts, and sends an ERROR event.
pub(crate) fn watch(
    shared: &Arc<Shared>,
    target: &Target,
    options: WatchOptions,
    form: Form,
    stop: Option<Receiver<bool>>,
) -> Result<impl Stream<Item = Bytes> + Send + use<>, Status> {
    let start = options.start()?;
    let resource = target.resolve(&shared.read().registry)?;
    options.selection.fields.check(&resource)?;
    let closing = || Status::unavailable("the API server is shutting down");
    // Subscribes to changes before it reads the state, so that it misses no change between these two steps.
    let signal = shared.subscribe(&resource.definition.id).ok_or_else(closing)?;
    let mut watch = Watch {
        shared: Arc::clone(shared),
        namespace: target.namespace.clone(),
        selection: options.selection,
        form,
        header: true,
        signal,
        stop,
        deadline: options.timeout.map(|timeout| Instant::now() + timeout),
        initial: Vec::new().into_iter(),
        mark_initial: options.send_initial == Some(true) && options.bookmarks,
        bookmarks: options.bookmarks,
        cursor: 0,
        shown: 0,
        failure: None,
        ended: false,
        resource,
    };
    watch.failure = watch.begin(&start).err();
    Ok(futures::stream::unfold(watch, |mut watch| async move {
        watch.next().await.map(|bytes| (bytes, watch))
    }))
}

impl Watch {
    fn begin(&mut self, start: &Start) -> Result<(), Status> {
        let state = self.shared.read();
        match start {
            Start::After(revision) => self.cursor = *revision,
            Start::Now { least, .. } if *least > state.revision => {
                return Err(Status::revision_too_large(*least, state.revision));
            }
            Start::Now { initial, .. } => {
                if *initial {
                    let objects =
                        state.range(&self.resource.definition.id, self.namespace.as_deref(), None);
                    let matching = objects
                        .map(|(_, stored)| stored)
                        .filter(|stored| self.selection.matches(stored));
                    self.initial = matching.cloned().collect::<Vec<_>>().into_iter();
                }
                self.cursor = state.revision;
            }
        }
        self.shown = self.cursor;
        Ok(())
    }

    async fn next(&mut self) -> Option<Bytes> {
        if let Some(status) = self.failure.take() {
            self.ended = true;
            return Some(frame("ERROR", status.to_json().to_string().as_bytes()));
        }
        if let Some(bytes) = self.next_initial().filter(|_| !self.ended) {
            return Some(bytes);
        }
        while !self.ended {
            self.signal.borrow_and_update();
            match self.advance() {
                Ok(bytes) if !bytes.is_empty() => return Some(bytes),
                Ok(_) => {}
                Err(status) => {
                    self.ended = true;
                    return Some(frame("ERROR", status.to_json().to_string().as_bytes()));
                }
            }
            if self.ended || !self.wait().await {
                self.ended = true;
                return self.bookmarks.then(|| self.bookmark(false));
            }
        }
        None
    }

    fn next_initial(&mut self) -> Option<Bytes> {
        let mut text = Vec::new();
        while text.len() < CHUNK
            && let Some(stored) = self.initial.next()
        {
            text.extend_from_slice(&self.event("ADDED", &stored));
        }
        if self.initial.as_slice().is_empty() && std::mem::take(&mut self.mark_initial) {
            text.extend_from_slice(&self.bookmark(true));
        }
        (!text.is_empty()).then(|| text.into())
    }

    /// Encodes the changes since the cursor; the result is empty when no change concerns this watch.
    fn advance(&mut self) -> Result<Bytes, Status> {
        loop {
            let Next { events, revision, aged, same } = self.read()?;
            let full = events.len() == LOOK;
            let mut events = events.iter();
            let mut text = Vec::new();
            while text.len() < CHUNK
                && let Some(event) = events.next()
            {
                self.cursor = event.revision;
                if let Some((verb, stored)) = self.visible_event(event)? {
                    text.extend_from_slice(&self.event(verb, &stored));
                    self.shown = event.revision;
                }
            }
            let more = full || events.len() > 0;
            if !more {
                self.cursor = revision;
                // A changed or removed kind ends its watches; clients reconnect and get the new definition.
                self.ended = !same;
            }
            if !text.is_empty() {
                return Ok(text.into());
            }
            if !more {
                return Ok(if self.bookmarks && aged {
                    self.bookmark(false)
                } else {
                    Bytes::new()
                });
            }
        }
    }

    fn read(&self) -> Result<Next, Status> {
        let state = self.shared.read();
        let id = &self.resource.definition.id;
        if self.cursor > state.revision {
            // The client knows a later revision than this server: the server was restored from an older backup.
            return Err(Status::expired(format!(
                "resource version {} lies ahead of {}",
                self.cursor, state.revision
            )));
        }
        let events = state.log.since(id, self.cursor, LOOK).map_err(|Expired { horizon }| {
            Status::expired(format!("too old resource version: {} ({horizon})", self.cursor))
        })?;
        let same =
            state.registry.get(id).is_some_and(|now| Arc::ptr_eq(now, &self.resource.definition));
        let aged = state.log.has_aged(self.shown);
        Ok(Next { events, revision: state.revision, aged, same })
    }

    /// Returns the event that this watch's client gets for a change: ADDED for an object that begins to match the
    /// selector, DELETED for an object that ceases to match.
    fn visible_event(&self, event: &Event) -> Result<Option<(&'static str, Arc<Stored>)>, Status> {
        if self.namespace.as_ref().is_some_and(|namespace| event.key.namespace != *namespace) {
            return Ok(None);
        }
        let before = event.previous.as_ref().filter(|previous| self.selection.matches(previous));
        let after = event.verb != Verb::Deleted && self.selection.matches(&event.object);
        Ok(match (before, after) {
            (None, true) => Some(("ADDED", Arc::clone(&event.object))),
            (Some(_), true) => Some(("MODIFIED", Arc::clone(&event.object))),
            (Some(last), false) => Some(("DELETED", self.as_of(last, event.revision)?)),
            (None, false) => None,
        })
    }

    /// Returns the last version of a deleted object, with the revision of the deletion.
    fn as_of(&self, last: &Stored, revision: u64) -> Result<Arc<Stored>, Status> {
        let mut object = last.decode()?;
        object.meta.resource_version = Some(revision.to_string());
        Ok(Arc::new(self.resource.definition.stored(&object, revision)))
    }

    fn event(&mut self, verb: &str, stored: &Stored) -> Bytes {
        match self.form.encode_object(&self.resource, stored, std::mem::take(&mut self.header)) {
            Ok(object) => frame(verb, &object),
            Err(status) => frame("ERROR", status.to_json().to_string().as_bytes()),
        }
    }

    fn bookmark(&mut self, initial: bool) -> Bytes {
        self.shown = self.cursor;
        let mut meta = json!({"resourceVersion": self.cursor.to_string()});
        if initial {
            meta["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let version = self.resource.version().api_version();
        let (kind, version) = match self.form {
            Form::Object | Form::Table { .. } => (&*self.resource.definition.kind, &*version),
            Form::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1"),
        };
        let object = json!({"kind": kind, "apiVersion": version, "metadata": meta});
        frame("BOOKMARK", object.to_string().as_bytes())
    }

    /// Waits for a signal that something may have changed; returns false when the watch is over.
    async fn wait(&mut self) -> bool {
        let stop = async {
            match &mut self.stop {
                Some(stop) => drop(stop.wait_for(|stop| *stop).await.map(drop)),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = self.signal.changed() => changed.is_ok(),
            () = daemon::sleep_until(self.deadline) => false,
            () = stop => false,
        }
    }
}

fn frame(verb: &str, object: &[u8]) -> Bytes {
    let mut text = format!("{{\"type\":\"{verb}\",\"object\":").into_bytes();
    text.extend_from_slice(object);
    text.extend_from_slice(b"}\n");
    text.into()
}

//! The log of recent changes, newest last. The server needs the log to resume watches, and to compute lists at an
//! earlier revision.

use crate::object::{Key, Stored};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Added,
    Modified,
    Deleted,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    pub(crate) key: Key,
    pub(crate) verb: Verb,
    /// Object after the change; for a deletion, the last version of the object with the revision of the deletion.
    pub(crate) object: Arc<Stored>,
    pub(crate) previous: Option<Arc<Stored>>,
}

/// Error: the log begins after the requested revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expired {
    /// Oldest revision from which a watch can resume.
    pub(crate) horizon: u64,
}

/// Largest size of the log's objects, in bytes, so that a few large objects that change often cannot fill the memory.
const BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct Log {
    capacity: usize,
    horizon: u64,
    /// Total size of all events that are or were in the log, in bytes.
    total: u64,
    /// Events, each with the total size of all events up to this event.
    events: VecDeque<(u64, Arc<Event>)>,
    by_resource: HashMap<Arc<str>, VecDeque<Arc<Event>>>,
}

impl Log {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            horizon: 0,
            total: 0,
            events: VecDeque::new(),
            by_resource: HashMap::new(),
        }
    }

    /// Returns the oldest revision from which a watch can resume without missing a change.
    pub(crate) fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Returns all events, oldest first.
    pub(super) fn events(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.events.iter().map(|(_, event)| event)
    }

    /// Returns whether the changes since this revision fill a quarter of the log.
    pub(crate) fn has_aged(&self, revision: u64) -> bool {
        let newer = self.events.partition_point(|(_, event)| event.revision <= revision);
        let before = newer.checked_sub(1).and_then(|last| self.events.get(last));
        let count = self.events.len() - newer;
        let bytes = self.total - before.map_or_else(|| self.forgotten(), |(total, _)| *total);
        count > self.capacity / 4 || bytes > BYTES / 4
    }

    /// Returns the size of the events that have left the log, in bytes.
    fn forgotten(&self) -> u64 {
        self.events.front().map_or(self.total, |(total, event)| total - size(event))
    }

    pub(super) fn set_horizon(&mut self, horizon: u64) {
        self.horizon = horizon;
    }

    /// Returns the horizon that the log will have once the events `more` have been pushed.
    pub(super) fn horizon_after(&self, more: &[Arc<Event>]) -> u64 {
        let mut count = self.events.len() + more.len();
        let mut bytes =
            self.total - self.forgotten() + more.iter().map(|event| size(event)).sum::<u64>();
        let mut horizon = self.horizon;
        for event in self.events().chain(more) {
            if !self.overflows(count, bytes) {
                break;
            }
            count -= 1;
            bytes -= size(event);
            horizon = event.revision;
        }
        horizon
    }

    /// Returns whether the oldest event has to leave the log. The latest event stays, however large.
    fn overflows(&self, count: usize, bytes: u64) -> bool {
        count > self.capacity || (bytes > BYTES && count > 1)
    }

    pub(super) fn push(&mut self, event: Arc<Event>) {
        self.by_resource
            .entry(Arc::clone(&event.key.resource))
            .or_default()
            .push_back(Arc::clone(&event));
        self.total += size(&event);
        self.events.push_back((self.total, event));
        while self.overflows(self.events.len(), self.total - self.forgotten()) {
            let Some((_, gone)) = self.events.pop_front() else { break };
            self.horizon = gone.revision;
            if let Some(events) = self.by_resource.get_mut(&gone.key.resource) {
                events.pop_front();
                if events.is_empty() {
                    self.by_resource.remove(&gone.key.resource);
                }
            }
        }
    }

    /// Returns up to `most` changes of one resource after `revision`, oldest first.
    pub(crate) fn since(
        &self,
        resource: &str,
        revision: u64,
        most: usize,
    ) -> Result<Vec<Arc<Event>>, Expired> {
        if revision < self.horizon {
            return Err(Expired { horizon: self.horizon });
        }
        let Some(events) = self.by_resource.get(resource) else { return Ok(Vec::new()) };
        let first = events.partition_point(|event| event.revision <= revision);
        Ok(events.iter().skip(first).take(most).cloned().collect())
    }
}

/// Returns the size of an event's object. The previous state is not counted: it is the object of an earlier event.
fn size(event: &Event) -> u64 {
    event.object.json.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;
    use serde_json::json;

    fn event(revision: u64, size: usize) -> Arc<Event> {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": "x".repeat(size)}});
        let object = Arc::new(Stored::opaque(&Object::from_value(object).unwrap(), revision));
        let key =
            Key { resource: "configmaps".into(), namespace: String::new(), name: "a".to_owned() };
        Arc::new(Event { revision, key, verb: Verb::Modified, object, previous: None })
    }

    #[test]
    fn the_log_keeps_fewer_events_when_they_are_large() {
        let mut log = Log::new(1000);
        let large = usize::try_from(BYTES / 16).unwrap();
        for revision in 1..=40 {
            let event = event(revision, if revision <= 30 { large } else { 10 });
            let horizon = log.horizon_after(std::slice::from_ref(&event));
            log.push(event);
            assert_eq!(log.horizon(), horizon, "disk and memory drop the same events");
        }
        // Each large event takes a little more than a sixteenth of the limit, so fifteen large events fit.
        assert_eq!(log.horizon(), 15);
        assert_eq!(log.since("configmaps", 15, usize::MAX).unwrap().len(), 25);
        assert!(log.since("configmaps", 14, usize::MAX).is_err());
        assert!(!log.has_aged(27));
        assert!(log.has_aged(26));
        assert!(log.has_aged(15));
        assert!(!log.has_aged(40));
        let whole = [event(41, large * 20)];
        assert_eq!(log.horizon_after(&whole), 40);
        log.push(Arc::clone(&whole[0]));
        assert_eq!(log.horizon(), 40);
    }
}

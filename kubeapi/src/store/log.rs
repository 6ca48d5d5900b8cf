//! What happened, newest last: from here watches resume and lists look back.

use crate::object::{Key, Stored};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Added,
    Modified,
    Deleted,
}

/// One change of one object.
#[derive(Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    pub(crate) key: Key,
    pub(crate) verb: Verb,
    /// After the change; for a deletion the last state, at the deletion's revision.
    pub(crate) object: Arc<Stored>,
    /// Before the change.
    pub(crate) previous: Option<Arc<Stored>>,
}

/// The log starts after the asked revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expired {
    /// The oldest revision from which a watch can resume.
    pub(crate) horizon: u64,
}

#[derive(Debug)]
pub(crate) struct Log {
    capacity: usize,
    horizon: u64,
    events: VecDeque<Arc<Event>>,
    by_resource: HashMap<Arc<str>, VecDeque<Arc<Event>>>,
}

impl Log {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            horizon: 0,
            events: VecDeque::new(),
            by_resource: HashMap::new(),
        }
    }

    /// The oldest revision from which a watch can resume without missing anything.
    pub(crate) fn horizon(&self) -> u64 {
        self.horizon
    }

    /// A quarter of the log, in changes.
    pub(crate) fn quarter(&self) -> u64 {
        self.capacity as u64 / 4
    }

    pub(super) fn set_horizon(&mut self, horizon: u64) {
        self.horizon = horizon;
    }

    /// The horizon once `more` events have been pushed.
    pub(super) fn horizon_after(&self, more: &[Arc<Event>]) -> u64 {
        let surplus = (self.events.len() + more.len()).saturating_sub(self.capacity);
        let last_gone =
            surplus.checked_sub(1).and_then(|index| self.events.iter().chain(more).nth(index));
        last_gone.map_or(self.horizon, |event| event.revision)
    }

    pub(super) fn push(&mut self, event: Arc<Event>) {
        self.by_resource
            .entry(Arc::clone(&event.key.resource))
            .or_default()
            .push_back(Arc::clone(&event));
        self.events.push_back(event);
        while self.events.len() > self.capacity {
            let Some(gone) = self.events.pop_front() else { break };
            self.horizon = gone.revision;
            if let Some(events) = self.by_resource.get_mut(&gone.key.resource) {
                events.pop_front();
                if events.is_empty() {
                    self.by_resource.remove(&gone.key.resource);
                }
            }
        }
    }

    /// Up to `most` changes of one resource after `revision`, oldest first.
    ///
    /// # Errors
    /// [`Expired`] when changes after `revision` have left the log.
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

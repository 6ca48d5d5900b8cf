//! A batch: the changes of several jobs that one commit writes to disk. Each job sees the changes of the jobs before
//! it; a failed job leaves no change.

use super::State;
use super::log::{Event, Verb};
use crate::admission::Admission;
use crate::object::{Key, Object, Stored};
use crate::registry::{Definition, Registry, builtin, crd};
use crate::status::Status;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Largest size of a stored object, in bytes: equal to the largest request body, so that patches cannot make an object
/// larger than a client could send it.
const OBJECT_LIMIT: usize = 3 << 20;

type Staged = Option<Arc<Stored>>;

/// A view of the state with staged changes on top.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    state: &'a State,
    admission: &'a Admission,
    registry: Arc<Registry>,
    staged: HashMap<Key, Staged>,
    events: Vec<Arc<Event>>,
    /// The earlier entry of `staged` for each change of the running job, to undo the changes if the job fails.
    undo: Vec<(Key, Option<Staged>)>,
    undo_registry: Option<Arc<Registry>>,
    dry_run: bool,
    /// User of the running job.
    user: String,
}

impl<'a> Batch<'a> {
    pub(super) fn new(state: &'a State, admission: &'a Admission) -> Self {
        Self {
            state,
            admission,
            registry: Arc::clone(&state.registry),
            staged: HashMap::new(),
            events: Vec::new(),
            undo: Vec::new(),
            undo_registry: None,
            dry_run: false,
            user: String::new(),
        }
    }

    pub(crate) fn admission(&self) -> &'a Admission {
        self.admission
    }

    /// Runs one job; either all of its changes stay, or none.
    pub(super) fn run<T>(
        &mut self,
        keep: bool,
        job: impl FnOnce(&mut Self) -> Result<T, Status>,
    ) -> Result<T, Status> {
        self.undo.clear();
        self.undo_registry = None;
        self.dry_run = !keep;
        self.user.clear();
        let result = job(self);
        if result.is_err() || !keep {
            self.roll_back();
        }
        result
    }

    fn roll_back(&mut self) {
        let keep = self.events.len().saturating_sub(self.undo.len());
        self.events.truncate(keep);
        while let Some((key, before)) = self.undo.pop() {
            match before {
                Some(staged) => self.staged.insert(key, staged),
                None => self.staged.remove(&key),
            };
        }
        if let Some(registry) = self.undo_registry.take() {
            self.registry = registry;
        }
    }

    pub(super) fn finish(self) -> (Vec<Arc<Event>>, Arc<Registry>) {
        (self.events, self.registry)
    }

    /// Sets the user of the running job.
    pub(crate) fn act_for(&mut self, user: String) {
        self.user = user;
    }

    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// Returns whether the running job is a dry run, whose changes will be dropped.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Returns the changes that all jobs have staged so far.
    pub(crate) fn events(&self) -> &[Arc<Event>] {
        &self.events
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Stored>> {
        match self.staged.get(key) {
            Some(staged) => staged.clone(),
            None => self.state.objects.get(key).cloned(),
        }
    }

    /// Returns whether an unreadable row of the file may be the object with this key.
    pub(crate) fn is_unread(&self, key: &Key) -> bool {
        self.state.unread.contains(key)
    }

    /// Returns the keys of one resource's objects, in one namespace or in all namespaces.
    pub(crate) fn keys(&self, resource: &Arc<str>, namespace: Option<&str>) -> Vec<Key> {
        let wanted = |key: &Key| {
            key.resource == *resource
                && namespace.is_none_or(|namespace| key.namespace == namespace)
        };
        let mut keys: BTreeSet<Key> =
            self.state.range(resource, namespace, None).map(|(key, _)| key.clone()).collect();
        for (key, staged) in self.staged.iter().filter(|(key, _)| wanted(key)) {
            match staged {
                Some(_) => keys.insert(key.clone()),
                None => keys.remove(key),
            };
        }
        keys.into_iter().collect()
    }

    /// Returns the objects that have `uid` as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Key> {
        let mut keys: BTreeSet<Key> = self.state.dependents.get(uid).cloned().unwrap_or_default();
        let names_owner = |staged: &Staged| {
            staged.as_ref().is_some_and(|stored| stored.owners.iter().any(|owner| owner.uid == uid))
        };
        for (key, staged) in &self.staged {
            if names_owner(staged) {
                keys.insert(key.clone())
            } else {
                keys.remove(key)
            };
        }
        keys.into_iter().collect()
    }

    /// Stores an object under the next revision.
    pub(crate) fn put(
        &mut self,
        definition: &Definition,
        key: Key,
        mut object: Object,
    ) -> Result<Arc<Stored>, Status> {
        let revision = self.next_revision();
        object.meta.resource_version = Some(revision.to_string());
        let stored = Arc::new(definition.stored(&object, revision));
        if stored.json.len() > OBJECT_LIMIT {
            return Err(Status::too_large(OBJECT_LIMIT));
        }
        let previous = self.get(&key);
        let verb = if previous.is_some() { Verb::Modified } else { Verb::Added };
        if &*key.resource == builtin::CRDS {
            self.define(&object)?;
        }
        self.stage(
            Some(Arc::clone(&stored)),
            Event { revision, key, verb, object: Arc::clone(&stored), previous },
        );
        Ok(stored)
    }

    /// Removes an object. Watches get the object's last version, with the revision of the deletion.
    pub(crate) fn remove(&mut self, definition: &Definition, key: Key) -> Result<(), Status> {
        let Some(stored) = self.get(&key) else { return Ok(()) };
        self.remove_with_last_state(definition, key, stored.decode()?).map(drop)
    }

    /// Removes an object. Watches get `last` as the object's last version.
    pub(crate) fn remove_with_last_state(
        &mut self,
        definition: &Definition,
        key: Key,
        mut last: Object,
    ) -> Result<Arc<Stored>, Status> {
        let revision = self.next_revision();
        last.meta.resource_version = Some(revision.to_string());
        let object = Arc::new(definition.stored(&last, revision));
        if &*key.resource == builtin::CRDS {
            self.redefine(|registry| registry.remove(&key.name));
        }
        let previous = self.get(&key);
        let before = previous.as_ref().map_or(revision, |previous| previous.revision);
        self.stage(None, Event { revision, key, verb: Verb::Deleted, object, previous });
        // The client gets the object's last revision; the event gets the revision of the deletion.
        last.meta.resource_version = Some(before.to_string());
        Ok(Arc::new(definition.stored(&last, before)))
    }

    fn stage(&mut self, staged: Staged, event: Event) {
        let before = self.staged.insert(event.key.clone(), staged);
        self.undo.push((event.key.clone(), before));
        self.events.push(Arc::new(event));
    }

    fn next_revision(&self) -> u64 {
        self.events.last().map_or(self.state.revision, |event| event.revision) + 1
    }

    /// Adds the kind that a CRD describes to the batch's registry, so that later jobs of the batch can use the kind.
    fn define(&mut self, object: &Object) -> Result<(), Status> {
        let invalid = |causes: Vec<_>| {
            Status::invalid("apiextensions.k8s.io", &object.kind, object.name(), &causes)
        };
        let definition = crd::compile(object).map_err(invalid)?;
        let conflicts = crd::check_names(&self.registry, &definition);
        if !conflicts.is_empty() {
            return Err(invalid(conflicts));
        }
        self.redefine(|registry| registry.insert(definition));
        Ok(())
    }

    fn redefine(&mut self, change: impl FnOnce(&mut Registry)) {
        let mut registry = (*self.registry).clone();
        change(&mut registry);
        let before = std::mem::replace(&mut self.registry, Arc::new(registry));
        self.undo_registry.get_or_insert(before);
    }
}

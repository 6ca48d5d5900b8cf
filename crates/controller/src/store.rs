//! The objects of one kind, in the last version that the API sent, and the changes that each event makes to them. This
//! module does no I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::{
    object::Object,
    watch::{Event, Item, Unreadable},
};

/// Namespace and name of an object.
pub type ObjectKey = (String, String);

/// One object before and after an event.
#[derive(Debug, Clone)]
pub struct Change<K> {
    /// The object before the event; `None` if the object is new.
    pub old: Option<Arc<K>>,
    /// The object after the event; `None` if the object was deleted.
    pub new: Option<Arc<K>>,
}

/// The fields of an object on which a reconcile depends. The status is left out, because the
/// controller itself writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    uid: Option<String>,
    generation: Option<i64>,
    deleted: bool,
    finalizers: BTreeSet<String>,
    labels: BTreeMap<String, String>,
}

impl Fingerprint {
    pub fn new<K: Object>(object: &K) -> Self {
        Self {
            uid: object.uid(),
            generation: object.meta().generation,
            deleted: object.meta().deletion_timestamp.is_some(),
            finalizers: object.finalizers().iter().cloned().collect(),
            labels: object.labels().clone(),
        }
    }

    /// Returns the fingerprint without finalizers, for a controller whose reconcile does not depend on them.
    #[must_use]
    pub fn without_finalizers(self) -> Self {
        Self { finalizers: BTreeSet::new(), ..self }
    }
}

impl<K: Object> Change<K> {
    /// Returns whether the event changed a field on which a reconcile depends.
    #[must_use]
    pub fn needs_reconcile(&self) -> bool {
        let print = |object: &Option<Arc<K>>| object.as_deref().map(Fingerprint::new);
        print(&self.old) != print(&self.new)
    }

    /// Returns the object after the event, or its last state if it was deleted.
    #[must_use]
    pub fn object(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

/// The objects of one kind. Until the first list is complete, an object that is absent from the store may exist.
#[derive(Debug)]
pub struct Store<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    /// Objects that exist, but cannot be decoded as this kind.
    unreadable: BTreeMap<ObjectKey, ObjectMeta>,
    is_complete: bool,
}

/// Clones the store, but not its objects.
impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            unreadable: self.unreadable.clone(),
            is_complete: self.is_complete,
        }
    }
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), unreadable: BTreeMap::new(), is_complete: false }
    }
}

impl<K: Object> Store<K> {
    /// Returns whether the store has received a complete list.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<K>> {
        self.objects.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Returns all objects that can be decoded.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<K>> + Clone {
        self.objects.values()
    }

    /// Returns the metadata of the objects that cannot be decoded. Their other fields are unknown, not empty.
    pub fn unreadable(&self) -> impl Iterator<Item = &ObjectMeta> {
        self.unreadable.values()
    }

    /// Applies an event of the watch, and returns the changes.
    pub fn take(&mut self, event: Event<K>) -> Vec<Change<K>> {
        match event {
            Event::Listed(items) => self.take_list(items),
            Event::Applied(item) => self.take_item(item),
            // The change contains the last known version of the object, because the version in the event has lost its
            // finalizers.
            Event::Deleted(item) => self.drop_object(&key_of(metadata_of(&item))),
            Event::Failing(_) | Event::Working => Vec::new(),
        }
    }

    fn take_list(&mut self, items: Vec<Item<K>>) -> Vec<Change<K>> {
        let listed: BTreeSet<ObjectKey> =
            items.iter().map(|item| key_of(metadata_of(item))).collect();
        let mut changes: Vec<_> = items.into_iter().flat_map(|item| self.take_item(item)).collect();
        self.is_complete = true;
        self.unreadable.retain(|key, _| listed.contains(key));
        let missing = self.objects.keys().filter(|key| !listed.contains(*key));
        let missing: Vec<ObjectKey> = missing.cloned().collect();
        changes.extend(missing.iter().flat_map(|key| self.drop_object(key)));
        changes
    }

    fn take_item(&mut self, item: Item<K>) -> Vec<Change<K>> {
        match item {
            Ok(object) => {
                self.unreadable.remove(&key(&object));
                self.put(object)
            }
            Err(Unreadable { metadata, .. }) => self.take_unreadable(*metadata),
        }
    }

    /// Applies an event about an object that cannot be decoded: the store keeps the last version that could be decoded.
    /// If the object is being deleted, that version gets the event's metadata, and so the deletion time.
    fn take_unreadable(&mut self, metadata: ObjectMeta) -> Vec<Change<K>> {
        let key = key_of(&metadata);
        self.unreadable.insert(key.clone(), metadata.clone());
        let known = self.objects.get(&key).filter(|known| known.uid() == metadata.uid);
        match known.filter(|_| metadata.deletion_timestamp.is_some()) {
            Some(known) => {
                let mut object = K::clone(known);
                *object.meta_mut() = metadata;
                self.put(object)
            }
            None => Vec::new(),
        }
    }

    /// Applies the object in the API's answer to a write of this program. The answer may arrive before the watch event.
    pub fn apply_written(&mut self, object: K) -> Vec<Change<K>> {
        let known = self.objects.get(&key(&object));
        if known.is_some_and(|known| known.uid() == object.uid()) {
            self.put(object)
        } else {
            Vec::new()
        }
    }

    fn put(&mut self, object: K) -> Vec<Change<K>> {
        let key = key(&object);
        let old = self.objects.get(&key).cloned();
        if old.as_deref().is_some_and(|old| !is_newer(&object, old)) {
            return Vec::new();
        }
        let new = Arc::new(object);
        self.objects.insert(key, Arc::clone(&new));
        vec![Change { old, new: Some(new) }]
    }

    fn drop_object(&mut self, key: &ObjectKey) -> Vec<Change<K>> {
        self.unreadable.remove(key);
        let old = self.objects.remove(key);
        old.into_iter().map(|old| Change { old: Some(old), new: None }).collect()
    }
}

fn key<K: Object>(object: &K) -> ObjectKey {
    key_of(object.meta())
}

fn metadata_of<K: Object>(item: &Item<K>) -> &ObjectMeta {
    item.as_ref().map_or_else(|unreadable| &*unreadable.metadata, |object| object.meta())
}

fn key_of(metadata: &ObjectMeta) -> ObjectKey {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// Returns whether resourceVersion `left` is earlier than `right`. Both are compared as decimal numbers (Kubernetes
/// 1.35, KEP-5504); returns false if one of them is no number.
#[must_use]
pub fn precedes(left: &str, right: &str) -> bool {
    matches!((left.parse::<u64>(), right.parse::<u64>()), (Ok(left), Ok(right)) if left < right)
}

/// Returns whether `object` is newer than `known`: the watch may deliver a version that a write of this program has
/// already replaced. If the resourceVersions are no numbers, the order is unknown, and `object` counts as newer.
fn is_newer<K: Object>(object: &K, known: &K) -> bool {
    let version = |object: &K| object.resource_version().and_then(|text| text.parse::<u64>().ok());
    match (version(object), version(known)) {
        (Some(new), Some(old)) if object.uid() == known.uid() => new > old,
        _ => true,
    }
}

#[cfg(test)]
mod tests;

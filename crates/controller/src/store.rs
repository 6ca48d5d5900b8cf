//! The objects of one kind as the API last sent them, and what each event changed. Pure.

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

/// Namespace and name.
pub type ObjectKey = (String, String);

/// One object before and after an event.
#[derive(Debug, Clone)]
pub struct Change<K> {
    /// The object before the event; `None` when it is new.
    pub old: Option<Arc<K>>,
    /// The object after the event; `None` when it is gone.
    pub new: Option<Arc<K>>,
}

/// The fields of an object that a reconcile acts on. The status is not among them, because the controller writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    uid: Option<String>,
    generation: Option<i64>,
    deleted: bool,
    finalizers: BTreeSet<String>,
    labels: BTreeMap<String, String>,
}

impl Fingerprint {
    pub fn of<K: Object>(object: &K) -> Self {
        Self {
            uid: object.uid(),
            generation: object.meta().generation,
            deleted: object.meta().deletion_timestamp.is_some(),
            finalizers: object.finalizers().iter().cloned().collect(),
            labels: object.labels().clone(),
        }
    }

    /// The same, for a controller that does not act on finalizers.
    #[must_use]
    pub fn without_finalizers(self) -> Self {
        Self { finalizers: BTreeSet::new(), ..self }
    }
}

impl<K: Object> Change<K> {
    /// Whether there is anything new to act on.
    #[must_use]
    pub fn to_act_on(&self) -> bool {
        let print = |object: &Option<Arc<K>>| object.as_deref().map(Fingerprint::of);
        print(&self.old) != print(&self.new)
    }

    /// The object after the event, or as it last was if it is gone.
    #[must_use]
    pub fn object(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

/// Objects of one kind. Nothing is concluded from an object's absence before the first list was read to its end.
#[derive(Debug)]
pub struct Store<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    /// Objects that exist and cannot be read as their kind.
    unreadable: BTreeMap<ObjectKey, ObjectMeta>,
    is_complete: bool,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), unreadable: BTreeMap::new(), is_complete: false }
    }
}

impl<K: Object> Store<K> {
    /// Whether a list was read to its end.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<K>> {
        self.objects.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// All objects that can be read.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<K>> + Clone {
        self.objects.values()
    }

    /// Metadata of objects that cannot be read. Nothing may be concluded from what is not known of them.
    pub fn unreadable(&self) -> impl Iterator<Item = &ObjectMeta> {
        self.unreadable.values()
    }

    /// Takes in an event of the watch and tells what it changed.
    pub fn take(&mut self, event: Event<K>) -> Vec<Change<K>> {
        match event {
            Event::Listed(items) => self.take_list(items),
            Event::Applied(item) => self.take_item(item),
            // The change has the object as it was known before, because its last version has lost its finalizers.
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

    /// The object stays as it was last readable, and its deletion counts.
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

    /// Takes in the API's answer to a write of this program, which comes before the watch event.
    pub fn wrote(&mut self, object: K) -> Vec<Change<K>> {
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

/// Whether `object` is newer than `known`: the watch may bring a version that an own write has already replaced. Versions of one
/// object compare as numbers (Kubernetes 1.35, KEP-5504); where they are no numbers, every event counts as newer.
fn is_newer<K: Object>(object: &K, known: &K) -> bool {
    let version = |object: &K| object.resource_version().and_then(|text| text.parse::<u64>().ok());
    match (version(object), version(known)) {
        (Some(new), Some(old)) if object.uid() == known.uid() => new > old,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use api::NnfNodeBlockStorage;
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

    use super::*;

    fn object(name: &str, version: u32, generation: i64) -> NnfNodeBlockStorage {
        let mut object = NnfNodeBlockStorage::new(
            name,
            api::NnfNodeBlockStorageSpec { shared_allocation: false, allocations: Vec::new() },
        );
        let metadata = &mut object.metadata;
        metadata.namespace = Some("rabbit-1".to_owned());
        metadata.uid = Some(format!("uid-{name}"));
        metadata.resource_version = Some(version.to_string());
        metadata.generation = Some(generation);
        object
    }

    fn applied(name: &str, version: u32, generation: i64) -> Event<NnfNodeBlockStorage> {
        Event::Applied(Ok(object(name, version, generation)))
    }

    fn unreadable(metadata: ObjectMeta) -> Item<NnfNodeBlockStorage> {
        Err(Unreadable { metadata: Box::new(metadata), why: "no spec".to_owned() })
    }

    #[test]
    fn an_own_write_makes_its_echo_old_news() {
        let mut store = Store::default();
        store.take(applied("a", 5, 1));
        let changes = store.wrote(object("a", 9, 1));
        assert!(!changes[0].to_act_on());
        assert!(store.take(applied("a", 7, 1)).is_empty());
        assert!(store.take(applied("a", 9, 1)).is_empty());
        assert!(store.take(applied("a", 12, 2))[0].to_act_on());
    }

    #[test]
    fn what_a_list_leaves_out_is_gone() {
        let mut store = Store::default();
        store.take(applied("a", 5, 1));
        store.take(applied("b", 6, 1));
        assert!(!store.is_complete() && store.iter().count() == 2);
        let gone = store.take(Event::Listed(vec![Ok(object("b", 6, 1))]));
        assert!(store.is_complete());
        assert_eq!(gone.len(), 1);
        assert!(gone[0].new.is_none() && gone[0].to_act_on());
        assert_eq!(store.iter().count(), 1);
    }

    #[test]
    fn what_cannot_be_read_stays_as_it_was_known_until_it_is_deleted() {
        let mut store = Store::default();
        store.take(applied("a", 5, 1));
        let mut metadata = object("a", 6, 2).metadata;
        assert!(store.take(Event::Applied(unreadable(metadata.clone()))).is_empty());
        assert_eq!((store.unreadable().count(), store.iter().count()), (1, 1));
        metadata.resource_version = Some("7".into());
        metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert!(store.take(Event::Applied(unreadable(metadata.clone())))[0].to_act_on());
        assert!(store.take(Event::Deleted(unreadable(metadata)))[0].new.is_none());
        assert_eq!((store.unreadable().count(), store.iter().count()), (0, 0));
    }

    #[test]
    fn what_cannot_be_read_is_listed_all_the_same_and_may_be_mended() {
        let mut store = Store::default();
        store.take(applied("a", 5, 1));
        let listed = Event::Listed(vec![unreadable(object("a", 6, 2).metadata)]);
        assert!(store.take(listed).is_empty());
        assert_eq!((store.unreadable().count(), store.iter().count()), (1, 1));
        assert!(store.take(applied("a", 7, 3))[0].to_act_on());
        assert_eq!(store.unreadable().count(), 0);
    }

    #[test]
    fn what_is_gone_is_told_as_it_was_before_its_last_finalizer_went() {
        let mut store = Store::default();
        let mut held = object("a", 5, 1);
        held.metadata.finalizers = Some(vec!["ours".to_owned()]);
        store.take(Event::Applied(Ok(held)));
        let gone = store.take(Event::Deleted(Ok(object("a", 6, 1))));
        let finalizers = gone[0].old.as_ref().unwrap().metadata.finalizers.as_deref();
        assert_eq!(finalizers, Some(&["ours".to_owned()][..]));
    }

    #[test]
    fn a_write_that_is_answered_after_the_object_went_does_not_bring_it_back() {
        let mut store = Store::default();
        store.take(applied("a", 5, 1));
        store.take(Event::Deleted(Ok(object("a", 6, 1))));
        assert!(store.wrote(object("a", 7, 1)).is_empty());
        assert_eq!(store.iter().count(), 0);
    }
}

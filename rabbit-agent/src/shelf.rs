//! Objects of one kind as the API last told them, and what each event changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{ResourceExt, runtime::watcher::Event};

use crate::write::Object;

/// Namespace and name.
pub type Place = (String, String);

/// One object before and after an event.
#[derive(Debug, Clone)]
pub struct Change<K> {
    /// As it was; `None` when it is new.
    pub old: Option<Arc<K>>,
    /// As it is; `None` when it is gone.
    pub new: Option<Arc<K>>,
}

/// What a reconcile acts on, besides the objects it refers to. Status is not among it: it is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    uid: Option<String>,
    generation: Option<i64>,
    deleted: bool,
    finalizers: BTreeSet<String>,
    labels: BTreeMap<String, String>,
}

impl Fingerprint {
    /// Of one object.
    pub fn of<K: Object>(object: &K) -> Self {
        Self {
            uid: object.uid(),
            generation: object.meta().generation,
            deleted: object.meta().deletion_timestamp.is_some(),
            finalizers: object.finalizers().iter().cloned().collect(),
            labels: object.labels().clone(),
        }
    }
}

impl<K: Object> Change<K> {
    /// Whether there is anything new to act on.
    #[must_use]
    pub fn to_act_on(&self) -> bool {
        let print = |object: &Option<Arc<K>>| object.as_deref().map(Fingerprint::of);
        print(&self.old) != print(&self.new)
    }

    /// The object: as it is, or else as it last was.
    #[must_use]
    pub fn object(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

/// Objects of one kind. Nothing is concluded from an object's absence before the first list was read to its end.
#[derive(Debug)]
pub struct Shelf<K> {
    objects: BTreeMap<Place, Arc<K>>,
    /// Objects that exist and do not read as what they should be.
    unreadable: BTreeMap<Place, ObjectMeta>,
    listed: BTreeSet<Place>,
    complete: bool,
}

impl<K> Default for Shelf<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            listed: BTreeSet::new(),
            complete: false,
        }
    }
}

impl<K: Object> Shelf<K> {
    /// Whether a list was read to its end.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// An object.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<K>> {
        self.objects.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.objects.values()
    }

    /// Metadata of those that exist and cannot be read: nothing may be concluded from what is not known of them.
    pub fn unreadable(&self) -> impl Iterator<Item = &ObjectMeta> {
        self.unreadable.values()
    }

    /// Takes in an object of which only this can be read. What was known of it before stays, and that it is deleted is
    /// acted on by that.
    pub fn take_unreadable(&mut self, metadata: ObjectMeta) -> Vec<Change<K>> {
        let place = place_of(&metadata);
        self.listed.insert(place.clone());
        self.unreadable.insert(place.clone(), metadata.clone());
        let known = self.objects.get(&place).filter(|known| known.uid() == metadata.uid);
        match known.filter(|_| metadata.deletion_timestamp.is_some()) {
            Some(known) => {
                let mut object = K::clone(known);
                *object.meta_mut() = metadata;
                self.put(object)
            }
            None => Vec::new(),
        }
    }

    /// Takes in that the object with this metadata is gone.
    pub fn take_end(&mut self, metadata: &ObjectMeta) -> Vec<Change<K>> {
        self.drop_object(&place_of(metadata))
    }

    /// Takes in an event of the watch and tells what it changed.
    pub fn take(&mut self, event: Event<K>) -> Vec<Change<K>> {
        match event {
            Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.listed.insert(place(&object));
                self.read(object)
            }
            Event::InitDone => {
                self.complete = true;
                let listed = std::mem::take(&mut self.listed);
                self.unreadable.retain(|place, _| listed.contains(place));
                let missed: Vec<Place> =
                    self.objects.keys().filter(|it| !listed.contains(*it)).cloned().collect();
                missed.iter().flat_map(|place| self.drop_object(place)).collect()
            }
            Event::Apply(object) => self.read(object),
            // As it was known before: its last version has lost the finalizers, whoever took them off.
            Event::Delete(object) => self.drop_object(&place(&object)),
        }
    }

    /// Takes in what the API answered to a write of ours, ahead of the watch.
    pub fn wrote(&mut self, object: K) -> Vec<Change<K>> {
        let known = self.objects.get(&place(&object));
        if known.is_some_and(|known| known.uid() == object.uid()) {
            self.put(object)
        } else {
            Vec::new()
        }
    }

    fn read(&mut self, object: K) -> Vec<Change<K>> {
        self.unreadable.remove(&place(&object));
        self.put(object)
    }

    fn put(&mut self, object: K) -> Vec<Change<K>> {
        let place = place(&object);
        let old = self.objects.get(&place).cloned();
        if old.as_deref().is_some_and(|old| !is_newer(&object, old)) {
            return Vec::new();
        }
        let new = Arc::new(object);
        self.objects.insert(place, Arc::clone(&new));
        vec![Change { old, new: Some(new) }]
    }

    fn drop_object(&mut self, place: &Place) -> Vec<Change<K>> {
        self.unreadable.remove(place);
        let old = self.objects.remove(place);
        old.into_iter().map(|old| Change { old: Some(old), new: None }).collect()
    }
}

fn place<K: Object>(object: &K) -> Place {
    place_of(object.meta())
}

fn place_of(metadata: &ObjectMeta) -> Place {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// The watch may bring what our own write has already replaced. Versions of one object are comparable as numbers
/// (Kubernetes 1.35, KEP-5504); where they are not numbers, every event counts as news.
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

    use super::*;
    use crate::samples;

    fn object(name: &str, version: u32, generation: i64) -> NnfNodeBlockStorage {
        let mut object = samples::block_storage(&[(1, &["rabbit-1"])]);
        object.metadata.name = Some(name.to_owned());
        object.metadata.resource_version = Some(version.to_string());
        object.metadata.generation = Some(generation);
        object
    }

    #[test]
    fn an_own_write_makes_its_echo_old_news() {
        let mut shelf = Shelf::default();
        shelf.take(Event::Apply(object("a", 5, 1)));
        let changes = shelf.wrote(object("a", 9, 1));
        assert!(!changes[0].to_act_on());
        assert!(shelf.take(Event::Apply(object("a", 7, 1))).is_empty());
        assert!(shelf.take(Event::Apply(object("a", 9, 1))).is_empty());
        assert!(shelf.take(Event::Apply(object("a", 12, 2)))[0].to_act_on());
    }

    #[test]
    fn what_a_complete_list_leaves_out_is_gone_and_not_before() {
        let mut shelf = Shelf::default();
        shelf.take(Event::Apply(object("a", 5, 1)));
        shelf.take(Event::Apply(object("b", 6, 1)));
        shelf.take(Event::Init);
        assert!(shelf.take(Event::InitApply(object("b", 6, 1))).is_empty());
        assert!(!shelf.is_complete() && shelf.iter().count() == 2);
        let gone = shelf.take(Event::InitDone);
        assert_eq!(gone.len(), 1);
        assert!(gone[0].new.is_none() && gone[0].to_act_on());
        assert_eq!(shelf.iter().count(), 1);
    }

    #[test]
    fn what_cannot_be_read_stays_as_it_was_known_until_it_is_deleted() {
        let mut shelf = Shelf::default();
        shelf.take(Event::Apply(object("a", 5, 1)));
        let mut metadata = object("a", 6, 2).metadata;
        assert!(shelf.take_unreadable(metadata.clone()).is_empty());
        assert_eq!((shelf.unreadable().count(), shelf.iter().count()), (1, 1));
        metadata.resource_version = Some("7".into());
        metadata.deletion_timestamp = Some(samples::started());
        assert!(shelf.take_unreadable(metadata.clone())[0].to_act_on());
        assert!(shelf.take_end(&metadata)[0].new.is_none());
        assert_eq!((shelf.unreadable().count(), shelf.iter().count()), (0, 0));
    }

    #[test]
    fn what_cannot_be_read_is_listed_all_the_same_and_may_be_mended() {
        let mut shelf = Shelf::default();
        shelf.take(Event::Apply(object("a", 5, 1)));
        shelf.take(Event::Init);
        assert!(shelf.take_unreadable(object("a", 6, 2).metadata).is_empty());
        assert!(shelf.take(Event::InitDone).is_empty());
        assert_eq!((shelf.unreadable().count(), shelf.iter().count()), (1, 1));
        assert!(shelf.take(Event::Apply(object("a", 7, 3)))[0].to_act_on());
        assert_eq!(shelf.unreadable().count(), 0);
    }

    #[test]
    fn a_list_that_breaks_off_takes_nothing_away() {
        let mut shelf = Shelf::default();
        shelf.take(Event::Apply(object("a", 5, 1)));
        shelf.take(Event::Init);
        shelf.take(Event::Init);
        assert_eq!(shelf.iter().count(), 1);
    }

    #[test]
    fn what_is_gone_is_told_as_it_was_before_it_was_let_go() {
        let mut shelf = Shelf::default();
        let mut held = object("a", 5, 1);
        held.metadata.finalizers = Some(vec!["ours".to_owned()]);
        shelf.take(Event::Apply(held));
        let gone = shelf.take(Event::Delete(object("a", 6, 1)));
        assert_eq!(
            gone[0].old.as_ref().unwrap().metadata.finalizers.as_deref(),
            Some(&["ours".to_owned()][..])
        );
    }

    #[test]
    fn a_write_that_is_answered_after_the_object_went_does_not_bring_it_back() {
        let mut shelf = Shelf::default();
        shelf.take(Event::Apply(object("a", 5, 1)));
        shelf.take(Event::Delete(object("a", 6, 1)));
        assert!(shelf.wrote(object("a", 7, 1)).is_empty());
        assert_eq!(shelf.iter().count(), 0);
    }
}

//! This node's ClientMounts: what the agent was told of each, what it reported, and what is to be written. Pure.
//!
//! The agent is told of an object once that carries the finalizer and its profile was looked for; and again when the object
//! or its profile changed, or when somebody overwrote the status that the agent had reported.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use api::{
    ClientMount, ClientMountStatus, NnfStorageProfile, RabbitLabels,
    names::{finalizer, label},
};
use controller::{Change, Event, Fingerprint, Item, Place, Store, Unreadable, has_finalizer};
use kube::ResourceExt;
use storage::desired::NodeName;

use agent::{
    desire::{Desire, NoProfile, Report},
    desired::{Goal, ObjectError},
    error::Failure,
    link::LinkEvent,
    reconcile::Outcome,
};

/// A profile as the API gave it, or why there is none.
pub(super) type Profile = Result<NnfStorageProfile, NoProfile>;

/// What is to be written to an object next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Write {
    Finalizer,
    Status(ClientMountStatus),
    /// Takes the finalizer off.
    Release,
}

/// What the API is to be asked for one object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Todo {
    pub(super) object: Arc<ClientMount>,
    pub(super) write: Option<Write>,
    /// The profile to read.
    pub(super) read: Option<Place>,
}

#[derive(Debug)]
pub(super) struct State {
    node: NodeName,
    store: Store<ClientMount>,
    entries: BTreeMap<String, Entry>,
    /// Uids of the objects that were never read, by name: their mounts are not known.
    unreadable: BTreeMap<String, String>,
    /// Names of the first list that the agent was not told of yet; `None` before that list.
    untold: Option<BTreeSet<String>>,
    synced: bool,
    events: Vec<LinkEvent>,
}

#[derive(Debug, Default)]
struct Entry {
    /// For which version of the object the profile was read, and what it was.
    profile: Option<(Fingerprint, Profile)>,
    told: Option<Told>,
    /// Somebody overwrote what the agent had reported: the agent is to look again.
    overwritten: bool,
    answer: Option<Answer>,
}

/// What the agent was told last.
#[derive(Debug, PartialEq)]
struct Told {
    uid: String,
    asks: Fingerprint,
    /// resourceVersion of the profile, or why there is none.
    profile: Result<Option<String>, NoProfile>,
    resource_version: String,
}

/// The status that an object should have.
#[derive(Debug)]
struct Answer {
    status: ClientMountStatus,
    released: bool,
    resource_version: String,
    /// What the object asked for when the agent answered; `None` of a refusal that needs no agent.
    asks: Option<Fingerprint>,
    /// The API took it. What the API stores otherwise, as a field that its schema lacks, is not sent twice.
    accepted: bool,
}

/// How this node stands to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It names another node, and this one never had it.
    Foreign,
    /// It is being deleted, and nothing of it is here (any more).
    Leaving,
    /// It lacks the finalizer, without which it may go at any time.
    Unheld,
    Held,
}

impl Standing {
    fn of(object: &ClientMount) -> Self {
        let is_deleted = object.metadata.deletion_timestamp.is_some();
        let is_foreign = object.namespace().as_ref() != Some(&object.spec.node);
        match has_finalizer(object, finalizer::CLIENT_MOUNT) {
            true => Self::Held,
            false if is_deleted => Self::Leaving,
            false if is_foreign => Self::Foreign,
            false => Self::Unheld,
        }
    }
}

/// What of an object a node acts on: two readings that are equal in it ask the same.
fn asks(object: &ClientMount) -> Fingerprint {
    Fingerprint::of(object).without_finalizers()
}

fn profile_of(object: &ClientMount) -> Option<Place> {
    let name = object.label(label::PINNED_PROFILE_NAME)?;
    Some((object.label(label::PINNED_PROFILE_NAMESPACE)?.to_owned(), name.to_owned()))
}

impl State {
    pub(super) fn new(node: NodeName) -> Self {
        Self {
            node,
            store: Store::default(),
            entries: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            untold: None,
            synced: false,
            events: Vec::new(),
        }
    }

    /// What the agent is to be told now.
    pub(super) fn events(&mut self) -> Vec<LinkEvent> {
        let is_settled = self.untold.as_ref().is_some_and(BTreeSet::is_empty);
        if is_settled && !mem::replace(&mut self.synced, true) {
            self.events.push(LinkEvent::Synced);
        }
        mem::take(&mut self.events)
    }

    /// Whether the agent was told of everything that exists.
    pub(super) fn is_synced(&self) -> bool {
        self.synced
    }

    /// Takes in an event of the watch; the names of the objects to be worked on.
    pub(super) fn take(&mut self, event: Event<ClientMount>) -> Vec<String> {
        let unread: Vec<Unreadable> = match &event {
            Event::Listed(items) => items.iter().filter_map(unread).collect(),
            Event::Applied(item) => unread(item).into_iter().collect(),
            _ => Vec::new(),
        };
        let changes = self.store.take(event);
        if self.untold.is_none() && self.store.is_complete() {
            self.untold = Some(self.store.iter().map(|object| object.name_any()).collect());
        }
        self.take_unreadable(unread);
        changes.iter().filter_map(|change| self.changed(change)).collect()
    }

    /// While an object was never read the agent must not take any mount for one that nobody wants.
    fn take_unreadable(&mut self, unread: Vec<Unreadable>) {
        let left = self.store.unreadable().filter_map(|metadata| metadata.name.clone());
        let left: BTreeSet<_> = left.collect();
        let readable = |name: &String, _: &mut String| !left.contains(name);
        for (name, uid) in self.unreadable.extract_if(.., readable) {
            let object = self.store.get(self.node.as_str(), &name);
            if object.and_then(|object| object.uid()).as_ref() != Some(&uid) {
                self.events.push(LinkEvent::Gone(uid));
            }
        }
        for Unreadable { metadata, why } in unread {
            let name = metadata.name.clone().unwrap_or_default();
            if self.store.get(self.node.as_str(), &name).is_none() {
                let desire = Desire::unreadable(&metadata, why);
                let before = self.unreadable.insert(name, desire.uid.clone());
                let replaced = before.filter(|uid| *uid != desire.uid);
                self.events.extend(replaced.map(LinkEvent::Gone));
                self.events.push(LinkEvent::Desired(Box::new(desire)));
            }
        }
    }

    fn changed(&mut self, change: &Change<ClientMount>) -> Option<String> {
        let name = change.object()?.name_any();
        let uid = |object: &Option<Arc<ClientMount>>| object.as_ref().and_then(|it| it.uid());
        if uid(&change.old) != uid(&change.new) {
            let entry = self.entries.remove(&name).unwrap_or_default();
            self.events.extend(entry.told.map(|told| LinkEvent::Gone(told.uid)));
        }
        if change.new.is_none() {
            self.settled(&name);
            return None;
        }
        let status = |object: &Option<Arc<ClientMount>>| object.as_ref()?.status.clone();
        if status(&change.old) != status(&change.new) {
            self.check_status(&name);
        }
        self.tell(&name);
        Some(name)
    }

    /// Has the agent look again when the object's status is not what it reported.
    fn check_status(&mut self, name: &str) {
        let Some(object) = self.store.get(self.node.as_str(), name) else { return };
        let Some(entry) = self.entries.get_mut(name) else { return };
        let answer = entry
            .answer
            .take_if(|answer| answer.accepted && object.status.as_ref() != Some(&answer.status));
        entry.overwritten |= answer.is_some();
    }

    /// Tells the agent of an object, once that is held and its profile was looked for.
    fn tell(&mut self, name: &str) {
        let Some(object) = self.store.get(self.node.as_str(), name).cloned() else { return };
        let entry = self.entries.entry(name.to_owned()).or_default();
        match Standing::of(&object) {
            Standing::Held => {}
            Standing::Unheld => return,
            standing @ (Standing::Foreign | Standing::Leaving) => {
                self.events.extend(entry.told.take().map(|told| LinkEvent::Gone(told.uid)));
                let refusal = (standing == Standing::Foreign).then(|| refusal(&self.node, &object));
                let is_new = |it: &Answer| {
                    entry.answer.as_ref().is_none_or(|known| known.status != it.status)
                };
                if let Some(refusal) = refusal.filter(is_new) {
                    entry.answer = Some(refusal);
                }
                return self.settled(name);
            }
        }
        let Some(profile) = entry.profile(&object) else { return };
        let told = Told {
            uid: object.uid().unwrap_or_default(),
            asks: asks(&object),
            profile: profile.as_ref().map(ResourceExt::resource_version).map_err(Clone::clone),
            resource_version: object.resource_version().unwrap_or_default(),
        };
        let is_known = entry.told.as_ref().is_some_and(|known| known.covers(&told));
        if !is_known || mem::take(&mut entry.overwritten) {
            entry.answer.take_if(|answer| answer.resource_version != told.resource_version);
            entry.overwritten = false;
            entry.told = Some(told);
            let desire = Desire::of(ClientMount::clone(&object), profile);
            self.events.push(LinkEvent::Desired(Box::new(desire)));
        }
        self.settled(name);
    }

    /// The agent need not wait for this object any more.
    fn settled(&mut self, name: &str) {
        if let Some(untold) = &mut self.untold {
            untold.remove(name);
        }
    }

    /// Takes what the agent reports; whether there is anything to do. A report on an earlier version of the object counts for
    /// nothing: a newer one follows.
    pub(super) fn report(&mut self, report: Report) -> bool {
        let Some(object) = self.store.get(self.node.as_str(), &report.name) else { return false };
        let asked = asks(object);
        let is_told = |told: &Told| {
            (&told.uid, &told.resource_version, &told.asks)
                == (&report.uid, &report.resource_version, &asked)
        };
        let entry = self.entries.get_mut(&report.name);
        let entry = entry.filter(|entry| entry.told.as_ref().is_some_and(is_told));
        let Some(entry) = entry else { return false };
        let Report { status, released, resource_version, .. } = report;
        let asks = Some(asked);
        entry.answer = Some(Answer { status, released, resource_version, asks, accepted: false });
        true
    }

    /// What the API is to be asked for an object; `None` when there is nothing to do.
    pub(super) fn todo(&mut self, name: &str) -> Option<Todo> {
        let object = self.store.get(self.node.as_str(), name)?;
        let entry = self.entries.get_mut(name)?;
        let (write, read) = (entry.write(object), entry.read(object));
        let object = Arc::clone(object);
        (write.is_some() || read.is_some()).then_some(Todo { object, write, read })
    }

    /// The API took a write, and has the object as `stored` now, where that changed it.
    pub(super) fn wrote(&mut self, done: &Todo, stored: Option<ClientMount>) {
        let name = done.object.name_any();
        let entry = self.entries.get_mut(&name);
        if let (Some(Write::Status(sent)), Some(Entry { answer: Some(answer), .. })) =
            (&done.write, entry)
        {
            answer.accepted |= answer.status == *sent;
        }
        let Some(stored) = stored else { return };
        let version = stored.resource_version();
        for change in self.store.wrote(stored) {
            self.changed(&change);
        }
        let known = self.store.get(self.node.as_str(), &name);
        if known.is_some_and(|known| known.resource_version() != version) {
            // The watch was ahead, and nobody compared what it brought.
            self.check_status(&name);
            self.tell(&name);
        }
    }

    /// The API does not take the finalizer: the agent is not told of the object before it does, and does not wait for it.
    pub(super) fn cannot_hold(&mut self, done: &Todo) {
        if done.write == Some(Write::Finalizer) {
            self.settled(&done.object.name_any());
        }
    }

    /// Takes the profile that was read for an object.
    pub(super) fn read(&mut self, done: &Todo, profile: Profile) {
        let name = done.object.name_any();
        if let Some(entry) = self.entries.get_mut(&name) {
            entry.profile = Some((asks(&done.object), profile));
            self.tell(&name);
        }
    }
}

fn unread(item: &Item<ClientMount>) -> Option<Unreadable> {
    item.as_ref().err().cloned()
}

impl Told {
    fn covers(&self, news: &Self) -> bool {
        (&self.uid, &self.asks, &self.profile) == (&news.uid, &news.asks, &news.profile)
    }
}

impl Entry {
    /// `None` until it was looked for, for this version of the object.
    fn profile(&self, object: &ClientMount) -> Option<Profile> {
        if profile_of(object).is_none() {
            // The agent names the missing label.
            return Some(Err(NoProfile::Missing(String::new())));
        }
        let known = self.profile.as_ref().filter(|(asked, _)| *asked == asks(object));
        known.map(|(_, profile)| profile.clone())
    }

    /// The profile to look for. One that is missing may come, unless it went before its object: a teardown does without.
    fn read(&self, object: &ClientMount) -> Option<Place> {
        let is_wanted = match Standing::of(object) {
            Standing::Foreign | Standing::Leaving => false,
            Standing::Unheld | Standing::Held => match self.profile(object) {
                None | Some(Err(NoProfile::Unread(_))) => true,
                Some(Err(NoProfile::Missing(_))) => object.metadata.deletion_timestamp.is_none(),
                Some(Ok(_)) => false,
            },
        };
        profile_of(object).filter(|_| is_wanted)
    }

    fn write(&mut self, object: &ClientMount) -> Option<Write> {
        match Standing::of(object) {
            Standing::Leaving => return None,
            Standing::Unheld => return Some(Write::Finalizer),
            Standing::Foreign | Standing::Held => {}
        }
        let answer = self.answer.as_mut()?;
        // It is about an earlier version, and the agent is told of this one when its profile was read.
        if answer.asks.as_ref().is_some_and(|asked| *asked != asks(object)) {
            return None;
        }
        let is_deleted = object.metadata.deletion_timestamp.is_some();
        let is_release = answer.released && is_deleted;
        // Removing the last finalizer deletes the object: nobody could read that status.
        let is_last = object.finalizers().iter().all(|it| it == finalizer::CLIENT_MOUNT);
        answer.accepted |= object.status.as_ref() == Some(&answer.status);
        if answer.accepted || is_release && is_last {
            return is_release.then_some(Write::Release);
        }
        Some(Write::Status(answer.status.clone()))
    }
}

/// Of an object that names another node.
fn refusal(node: &NodeName, object: &ClientMount) -> Answer {
    let namespace = object.namespace().unwrap_or_default();
    let error = ObjectError::OtherNode { node: object.spec.node.clone(), namespace };
    let (goal, count) = (Goal::of(object).unwrap_or(Goal::Unmounted), object.spec.mounts.len());
    let outcome = Outcome::refused(goal, count, Failure::from(&error));
    Answer {
        status: agent::report::status(node, &outcome),
        released: false,
        resource_version: String::new(),
        asks: None,
        accepted: false,
    }
}

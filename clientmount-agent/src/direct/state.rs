//! This node's ClientMounts. For each: the version that the agent received, the agent's report, and the pending writes
//! to the API. Pure.
//!
//! The agent receives an object once the object carries the agent's finalizer and its profile was read. The agent
//! receives the object again when the object or its profile changed, or when another client overwrote the status that
//! the agent had reported.

mod entry;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use api::ClientMount;
use controller::{Change, Event, Item, ObjectKey, Store, Unreadable};
use kube::ResourceExt;
use storage::desired::NodeName;

use agent::{
    link::LinkEvent,
    received::{ReceivedMount, Report},
};
use entry::{
    Entry, Hold, PendingStatus, Sent, fingerprint_of, refusal, retract_status,
    says_unmounted_too_early,
};
pub(super) use entry::{Profile, Write};

/// The requests to the API for one object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ApiRequests {
    pub(super) object: Arc<ClientMount>,
    /// The write to the object.
    pub(super) write: Option<Write>,
    /// The profile to read.
    pub(super) read: Option<ObjectKey>,
}

/// All ClientMounts of the node.
#[derive(Debug)]
pub(super) struct State {
    node: NodeName,
    store: Store<ClientMount>,
    /// By object name: the version that was sent to the agent, the agent's report, and the pending write.
    entries: BTreeMap<String, Entry>,
    /// Uids of the objects that could never be read, and whose mounts are therefore not known, by name.
    unreadable: BTreeMap<String, String>,
    /// Names of the objects in the first list that were not sent to the agent yet; `None` before the first list.
    unsent: Option<BTreeSet<String>>,
    /// Whether `Synced` was sent: the event that says that the agent has received every object.
    synced: bool,
    /// Events that the agent has not received yet.
    events: Vec<LinkEvent>,
}

impl State {
    pub(super) fn new(node: NodeName) -> Self {
        Self {
            node,
            store: Store::default(),
            entries: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            unsent: None,
            synced: false,
            events: Vec::new(),
        }
    }

    /// Returns the next events for the agent.
    pub(super) fn events(&mut self) -> Vec<LinkEvent> {
        let are_all_sent = self.unsent.as_ref().is_some_and(BTreeSet::is_empty);
        if are_all_sent && !mem::replace(&mut self.synced, true) {
            self.events.push(LinkEvent::Synced);
        }
        mem::take(&mut self.events)
    }

    pub(super) fn is_synced(&self) -> bool {
        self.synced
    }

    /// Takes an event of the watch; returns the names of the objects to work on.
    pub(super) fn take(&mut self, event: Event<ClientMount>) -> Vec<String> {
        let unread: Vec<Unreadable> = match &event {
            Event::Listed(items) => items.iter().filter_map(unreadable).collect(),
            Event::Applied(item) => unreadable(item).into_iter().collect(),
            _ => Vec::new(),
        };
        let changes = self.store.take(event);
        if self.unsent.is_none() && self.store.is_complete() {
            self.unsent = Some(self.store.iter().map(|object| object.name_any()).collect());
        }
        self.take_unreadable(unread);
        changes.iter().filter_map(|change| self.record_change(change)).collect()
    }

    /// Sends objects that could never be read to the agent too. While there is such an object, the agent must not
    /// remove any mount as unwanted, because the mount may belong to this object.
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
                let received = ReceivedMount::unreadable(&metadata, why);
                let before = self.unreadable.insert(name, received.uid.clone());
                let replaced = before.filter(|uid| *uid != received.uid);
                self.events.extend(replaced.map(LinkEvent::Gone));
                self.events.push(LinkEvent::Desired(Box::new(received)));
            }
        }
    }

    fn record_change(&mut self, change: &Change<ClientMount>) -> Option<String> {
        let name = change.object()?.name_any();
        let uid =
            |object: &Option<Arc<ClientMount>>| object.as_ref().and_then(|object| object.uid());
        if uid(&change.old) != uid(&change.new) {
            let entry = self.entries.remove(&name).unwrap_or_default();
            self.events.extend(entry.sent.map(|sent| LinkEvent::Gone(sent.uid)));
        }
        if change.new.is_none() {
            self.stop_waiting_for(&name);
            return None;
        }
        let status = |object: &Option<Arc<ClientMount>>| object.as_ref()?.status.clone();
        if status(&change.old) != status(&change.new) {
            self.check_status(&name);
        }
        self.send(&name);
        Some(name)
    }

    /// Checks whether the object's status differs from the agent's report. If so, the next [`State::send`] sends the
    /// object to the agent again.
    fn check_status(&mut self, name: &str) {
        let Some(object) = self.store.get(self.node.as_str(), name) else { return };
        let Some(entry) = self.entries.get_mut(name) else { return };
        let overwritten = entry
            .pending_status
            .take_if(|pending| pending.accepted && object.status.as_ref() != Some(&pending.status));
        entry.overwritten |= overwritten.is_some();
    }

    /// Sends an object to the agent, if it carries the finalizer and its profile was read.
    fn send(&mut self, name: &str) {
        let Some(object) = self.store.get(self.node.as_str(), name).cloned() else { return };
        let entry = self.entries.entry(name.to_owned()).or_default();
        match Hold::new(&object) {
            // The status says that everything is unmounted, but the agent is about to mount. A controller that believes
            // this status could remove the finalizer once the node is away. So the status is replaced before the agent
            // receives the object.
            Hold::WithFinalizer if says_unmounted_too_early(&object) => {
                entry.pending_status = Some(retract_status(&object));
                return;
            }
            Hold::WithFinalizer => {}
            Hold::WithoutFinalizer => return,
            hold @ (Hold::OtherNode | Hold::Released) => {
                self.events.extend(entry.sent.take().map(|sent| LinkEvent::Gone(sent.uid)));
                let refusal = (hold == Hold::OtherNode).then(|| refusal(&self.node, &object));
                let is_new = |refusal: &PendingStatus| {
                    entry.pending_status.as_ref().is_none_or(|known| known.status != refusal.status)
                };
                if let Some(refusal) = refusal.filter(is_new) {
                    entry.pending_status = Some(refusal);
                }
                return self.stop_waiting_for(name);
            }
        }
        let Some(profile) = entry.profile(&object) else { return };
        let sent = Sent {
            uid: object.uid().unwrap_or_default(),
            fingerprint: fingerprint_of(&object),
            profile: profile.as_ref().map(ResourceExt::resource_version).map_err(Clone::clone),
            resource_version: object.resource_version().unwrap_or_default(),
        };
        let is_known = entry.sent.as_ref().is_some_and(|known| known.covers(&sent));
        if !is_known || mem::take(&mut entry.overwritten) {
            entry
                .pending_status
                .take_if(|pending| pending.resource_version != sent.resource_version);
            entry.overwritten = false;
            entry.sent = Some(sent);
            let received = ReceivedMount::new(ClientMount::clone(&object), profile);
            self.events.push(LinkEvent::Desired(Box::new(received)));
        }
        self.stop_waiting_for(name);
    }

    /// Removes this object from the objects that `Synced` waits for.
    fn stop_waiting_for(&mut self, name: &str) {
        if let Some(unsent) = &mut self.unsent {
            unsent.remove(name);
        }
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &Arc<ClientMount>> + Clone {
        self.store.iter()
    }

    /// Takes a report of the agent; returns whether there is anything to write. Drops a report on an earlier version
    /// of the object: the agent will report on the newer version.
    pub(super) fn report(&mut self, report: Report) -> bool {
        let Some(object) = self.store.get(self.node.as_str(), &report.name) else { return false };
        let fingerprint = fingerprint_of(object);
        let is_sent = |sent: &Sent| {
            (&sent.uid, &sent.resource_version, &sent.fingerprint)
                == (&report.uid, &report.resource_version, &fingerprint)
        };
        let entry = self.entries.get_mut(&report.name);
        let entry = entry.filter(|entry| entry.sent.as_ref().is_some_and(is_sent));
        let Some(entry) = entry else { return false };
        let Report { status, released, resource_version, .. } = report;
        let fingerprint = Some(fingerprint);
        entry.pending_status = Some(PendingStatus {
            status,
            released,
            resource_version,
            fingerprint,
            accepted: false,
        });
        true
    }

    /// Returns the next requests to the API for an object, if any.
    pub(super) fn requests(&mut self, name: &str) -> Option<ApiRequests> {
        let object = self.store.get(self.node.as_str(), name)?;
        let entry = self.entries.get_mut(name)?;
        let (write, read) = (entry.write(object), entry.read(object));
        let object = Arc::clone(object);
        (write.is_some() || read.is_some()).then_some(ApiRequests { object, write, read })
    }

    /// Records that the API accepted a write. If the write changed the object, `stored` is the new version.
    pub(super) fn record_write(&mut self, requests: &ApiRequests, stored: Option<ClientMount>) {
        let name = requests.object.name_any();
        let entry = self.entries.get_mut(&name);
        if let (Some(Write::Status(sent)), Some(Entry { pending_status: Some(pending), .. })) =
            (&requests.write, entry)
        {
            pending.accepted |= pending.status == *sent;
        }
        let Some(stored) = stored else { return };
        let version = stored.resource_version();
        for change in self.store.apply_written(stored) {
            self.record_change(&change);
        }
        let known = self.store.get(self.node.as_str(), &name);
        if known.is_some_and(|known| known.resource_version() != version) {
            // The watch has already delivered a newer version, whose status was not compared with the report yet.
            self.check_status(&name);
            self.send(&name);
        }
    }

    /// Records that the API refused the finalizer or the status of an object. From then on the event `Synced`, which
    /// says that the agent has received every object, does not wait for this object.
    pub(super) fn write_refused(&mut self, requests: &ApiRequests) {
        if matches!(requests.write, Some(Write::AddFinalizer | Write::Status(_))) {
            self.stop_waiting_for(&requests.object.name_any());
        }
    }

    /// Takes the profile that was read for an object.
    pub(super) fn set_profile(&mut self, requests: &ApiRequests, profile: Profile) {
        let name = requests.object.name_any();
        if let Some(entry) = self.entries.get_mut(&name) {
            entry.profile = Some((fingerprint_of(&requests.object), profile));
            self.send(&name);
        }
    }
}

fn unreadable(item: &Item<ClientMount>) -> Option<Unreadable> {
    item.as_ref().err().cloned()
}

//! Which nodes exist, and who speaks for each of them.
//!
//! One name, one session. Of two agents that claim a name, the one of the later boot wins, and within one boot the one
//! that started later; the loser is told who won. A boot whose agent is not connected keeps no other out: when a node
//! booted is by its clock, and a clock may be wrong. A node that never said hello is known from the SystemConfiguration
//! only, and a SystemConfiguration that could not be read is a gap, never an empty machine.

mod places;

use std::collections::{BTreeMap, BTreeSet};

use api::SystemConfiguration;
use proto::v1::{self, Health, Hello, NodeRecord};
use thiserror::Error;

pub(crate) use places::Place;
pub(crate) use places::unfit;
use places::{is_node_name, places};

/// Sessions and places of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    sessions: BTreeMap<String, Session>,
    /// None until a SystemConfiguration was read.
    places: Option<BTreeMap<String, Place>>,
    /// What the SystemConfiguration names that is no node.
    unfit: Option<String>,
    last_epoch: u64,
}

#[derive(Debug)]
struct Session {
    hello: Hello,
    epoch: u64,
    connected: bool,
    /// Seconds since 1970.
    since: i64,
    health: Health,
}

/// A hello that is not accepted.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum RejectedHello {
    #[error("hello names no node: start the agent with --node NAME")]
    NoName,
    #[error(
        "hello of {node:?}: that is no host name (RFC 1123): start the agent with --node NAME, as in the SystemConfiguration"
    )]
    NotHostName { node: String },
    #[error("hello of {node} has no role: this agent is not of this version of Warren")]
    NoRole { node: String },
    #[error(
        "{node} is a {configured} by the SystemConfiguration, but this agent is for a {said}: \
         run the other agent there, or correct the SystemConfiguration"
    )]
    WrongRole { node: String, configured: &'static str, said: &'static str },
    /// For good: within a boot the order in which agents start is certain.
    #[error(
        "a newer agent speaks for node {node} (boot {boot}, started {started_at} ns after boot): \
         stop this agent, or give it a name of its own with --node"
    )]
    Older { node: String, boot: String, started_at: u64 },
    /// As long as the other is connected.
    #[error(
        "an agent of another boot speaks for node {node} (boot {boot}, booted at {booted_at} by its clock, which is later): \
         if that is another machine, stop this agent, or give it a name of its own with --node; if it is this node's \
         former boot, this agent is let in once its connection is known to be dead"
    )]
    EarlierBoot { node: String, boot: String, booted_at: u64 },
}

impl Roster {
    /// Opens a session; it becomes the node's newest and ends the one before.
    ///
    /// # Errors
    /// When a newer agent speaks for this node, or the hello is incomplete.
    pub(crate) fn hello(&mut self, hello: Hello, now: i64) -> Result<u64, RejectedHello> {
        if hello.node.is_empty() {
            return Err(RejectedHello::NoName);
        }
        if !is_node_name(&hello.node) {
            return Err(RejectedHello::NotHostName { node: hello.node });
        }
        if hello.role() == v1::Role::Unspecified {
            return Err(RejectedHello::NoRole { node: hello.node });
        }
        self.check_role(&hello)?;
        self.check_newest(&hello)?;
        self.last_epoch += 1;
        let epoch = self.last_epoch;
        let health = Health::default();
        self.sessions.insert(
            hello.node.clone(),
            Session { hello, epoch, connected: true, since: now, health },
        );
        Ok(epoch)
    }

    /// Ends a session; nothing happens when a newer one took over.
    pub(crate) fn bye(&mut self, node: &str, epoch: u64, now: i64) {
        if let Some(session) = self.sessions.get_mut(node)
            && session.epoch == epoch
        {
            session.connected = false;
            session.since = now;
        }
    }

    /// Whether `epoch` is the node's newest session.
    pub(crate) fn is_newest(&self, node: &str, epoch: u64) -> bool {
        self.sessions.get(node).is_some_and(|session| session.epoch == epoch)
    }

    /// The boot of the agent that speaks for `node`.
    pub(crate) fn boot(&self, node: &str) -> Option<&str> {
        self.sessions.get(node).map(|session| session.hello.boot_id.as_str())
    }

    /// Takes a node's own word on its health, if it comes from the newest session.
    pub(crate) fn health(&mut self, node: &str, epoch: u64, health: Health) {
        if let Some(session) = self.sessions.get_mut(node)
            && session.epoch == epoch
        {
            session.health = health;
        }
    }

    /// Learns the machine's layout; returns the names of all its nodes.
    pub(crate) fn configure(&mut self, configuration: &SystemConfiguration) -> BTreeSet<String> {
        let places = places(configuration);
        let names = places.keys().cloned().collect();
        self.places = Some(places);
        self.unfit = unfit(configuration);
        names
    }

    /// The SystemConfiguration is gone: the layout is unknown again.
    pub(crate) fn forget_configuration(&mut self) {
        self.places = None;
        self.unfit = None;
    }

    /// Whether `name` is a rabbit, a compute, or no node; None while the machine's layout is unknown.
    pub(crate) fn place(&self, name: &str) -> Option<Option<&Place>> {
        self.places.as_ref().map(|places| places.get(name))
    }

    /// Every rabbit, of the layout or by its agent's word; None while the machine's layout is unknown.
    pub(crate) fn rabbits(&self) -> Option<BTreeSet<String>> {
        let places = self.places.as_ref()?;
        let names = places.keys().chain(self.sessions.keys());
        Some(names.filter(|name| self.is_rabbit(name)).cloned().collect())
    }

    /// Whether an agent in the role of a rabbit speaks for `name`, or the layout calls it a rabbit.
    pub(crate) fn is_rabbit(&self, name: &str) -> bool {
        matches!(self.place(name), Some(Some(Place::Rabbit)))
            || self
                .sessions
                .get(name)
                .is_some_and(|session| session.hello.role() == v1::Role::Rabbit)
    }

    /// Every node that is configured or has said hello, by name.
    pub(crate) fn records(&self) -> Vec<NodeRecord> {
        let configured = self.places.iter().flat_map(BTreeMap::keys);
        let names: BTreeSet<&String> = configured.chain(self.sessions.keys()).collect();
        names.into_iter().map(|name| self.record(name)).collect()
    }

    /// What the records leave open, in words.
    pub(crate) fn gap(&self) -> Option<String> {
        if self.places.is_some() {
            return self.unfit.clone();
        }
        Some("SystemConfiguration default/default was not read: nodes that never connected are missing, and no node has a place".to_owned())
    }

    /// Two kinds of agent acting on one node's ClientMounts would undo each other's work.
    fn check_role(&self, hello: &Hello) -> Result<(), RejectedHello> {
        let rabbit = hello.role() == v1::Role::Rabbit;
        let (configured, said) = match self.place(&hello.node).flatten() {
            Some(Place::Rabbit) if !rabbit => ("rabbit", "compute"),
            Some(Place::Compute { .. } | Place::External) if rabbit => ("compute", "rabbit"),
            Some(Place::Rabbit | Place::Compute { .. } | Place::External) | None => return Ok(()),
        };
        Err(RejectedHello::WrongRole { node: hello.node.clone(), configured, said })
    }

    /// Whether `hello` is not of an agent that another one has replaced.
    fn check_newest(&self, hello: &Hello) -> Result<(), RejectedHello> {
        let Some(Session { hello: other, connected, .. }) = self.sessions.get(&hello.node) else {
            return Ok(());
        };
        let (node, boot) = (hello.node.clone(), other.boot_id.clone());
        if hello.boot_id == other.boot_id && hello.started_at < other.started_at {
            return Err(RejectedHello::Older { node, boot, started_at: other.started_at });
        }
        if hello.boot_id != other.boot_id && *connected && hello.booted_at < other.booted_at {
            let booted_at = other.booted_at;
            return Err(RejectedHello::EarlierBoot { node, boot, booted_at });
        }
        Ok(())
    }

    fn record(&self, name: &str) -> NodeRecord {
        let place = self.place(name).flatten();
        let (rabbit, index) = match place {
            Some(Place::Compute { rabbit, index }) => (rabbit.clone(), *index),
            Some(Place::Rabbit | Place::External) | None => (String::new(), None),
        };
        let configured_role = match place {
            Some(Place::Rabbit) => v1::Role::Rabbit,
            Some(Place::Compute { .. } | Place::External) => v1::Role::Compute,
            None => v1::Role::Unspecified,
        };
        let mut record = NodeRecord {
            node: name.to_owned(),
            role: configured_role.into(),
            rabbit,
            index,
            ..NodeRecord::default()
        };
        if let Some(session) = self.sessions.get(name) {
            record.role = session.hello.role;
            record.connected = session.connected;
            record.version = session.hello.version.clone();
            record.boot_id = session.hello.boot_id.clone();
            record.epoch = session.epoch;
            record.health = Some(session.health.clone());
            record.since = session.since;
        }
        record
    }
}

#[cfg(test)]
mod tests;

//! The nodes of the system, and the newest session of each.
//!
//! Each node has one session. Of two agents with the same node name, the coordinator serves the agent of the later
//! boot, and within one boot the agent that started later. It refuses the other agent, and sends it the reason. An
//! agent that has disconnected does not block an agent of an earlier boot: boot times come from the node's clock,
//! which may be wrong. A node that never sent a hello is known from the SystemConfiguration only. While no
//! SystemConfiguration was read, the list of nodes has a gap, that is, a text about missing information, so that the
//! system does not look empty.

mod certificate;
mod locations;
mod mistakes;

use std::collections::{BTreeMap, BTreeSet};

use api::SystemConfiguration;
use fanout::Nodes;
use proto::v1::{self, Health, Hello, NodeRecord};
use thiserror::Error;

use certificate::expiry_warning;
pub(crate) use locations::Location;
use locations::{invalid_name, is_node_name, locations};
pub(crate) use mistakes::mistakes;

/// Sessions and locations of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    sessions: BTreeMap<String, Session>,
    /// The location of each node; `None` until a SystemConfiguration was read.
    locations: Option<BTreeMap<String, Location>>,
    /// Error text about invalid node names in the SystemConfiguration; `None` if all are valid.
    invalid_name: Option<String>,
    /// Number of the newest session of any node.
    last_epoch: u64,
}

/// The newest session of a node.
#[derive(Debug)]
struct Session {
    hello: Hello,
    epoch: u64,
    /// Whether the agent is still connected.
    connected: bool,
    /// Time at which the agent connected or disconnected, in seconds since 1970.
    since: i64,
    health: Health,
    /// Expiry of the agent's certificate, in seconds since 1970; `None` without a certificate.
    expires: Option<i64>,
}

/// The reason for refusing a hello.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum RejectedHello {
    #[error("hello names no node: start the agent with --node NAME")]
    NoName,
    #[error(
        "hello of {node:?}: this is not a host name (RFC 1123): start the agent with --node NAME, as in the SystemConfiguration"
    )]
    NotHostName { node: String },
    #[error("hello of {node} has no role: install the coordinator's version of Warren on {node}")]
    NoRole { node: String },
    #[error(
        "{node} is a {configured} by the SystemConfiguration, but this agent is for a {connected_as}: \
         run the agent for a {configured} there, or correct the SystemConfiguration"
    )]
    WrongRole { node: String, configured: &'static str, connected_as: &'static str },
    /// A newer agent of the same boot has connected. This refusal is final: within a boot the order
    /// of starts is certain.
    #[error(
        "a newer agent of node {node} has connected (boot {boot}, started {started_at} ns after boot): \
         stop this agent, or give it a name of its own with --node"
    )]
    Older { node: String, boot: String, started_at: u64 },
    /// An agent of a later boot is connected. The refusal holds until that agent disconnects.
    #[error(
        "an agent of another boot of node {node} is connected (boot {boot}, booted at {booted_at} by its clock, which is later): \
         if that is another machine, stop this agent, or give it a name of its own with --node; if that is this node's \
         former boot, this agent is accepted once the kernel reports the other agent's connection as dead"
    )]
    EarlierBoot { node: String, boot: String, booted_at: u64 },
}

impl Roster {
    /// Opens a session, which replaces the node's previous session. Returns the new session's number.
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
            Session { hello, epoch, connected: true, since: now, health, expires: None },
        );
        Ok(epoch)
    }

    /// Ends a session; returns false if a newer session has replaced it.
    pub(crate) fn close_session(&mut self, node: &str, epoch: u64, now: i64) -> bool {
        let session = self.session(node, epoch);
        let is_newest = session.is_some();
        if let Some(session) = session {
            session.connected = false;
            session.since = now;
        }
        is_newest
    }

    /// Returns session `epoch` of a node, unless a newer session replaced it.
    fn session(&mut self, node: &str, epoch: u64) -> Option<&mut Session> {
        self.sessions.get_mut(node).filter(|session| session.epoch == epoch)
    }

    /// Returns whether `epoch` is the node's newest session.
    pub(crate) fn is_newest(&self, node: &str, epoch: u64) -> bool {
        self.sessions.get(node).is_some_and(|session| session.epoch == epoch)
    }

    /// Returns the boot ID of the newest session of `node`.
    pub(crate) fn boot(&self, node: &str) -> Option<&str> {
        self.sessions.get(node).map(|session| session.hello.boot_id.as_str())
    }

    /// Records the health that session `epoch` of a node reported, unless a newer session has replaced that session.
    pub(crate) fn health(&mut self, node: &str, epoch: u64, health: Health) {
        if let Some(session) = self.session(node, epoch) {
            session.health = health;
        }
    }

    /// Records when the certificate of session `epoch` expires, in seconds since 1970, unless a newer session has
    /// replaced that session.
    pub(crate) fn set_certificate_expiry(&mut self, node: &str, epoch: u64, expires: i64) {
        if let Some(session) = self.session(node, epoch) {
            session.expires = Some(expires);
        }
    }

    /// Takes a new version of the SystemConfiguration, and returns the names of all its nodes.
    pub(crate) fn configure(&mut self, configuration: &SystemConfiguration) -> BTreeSet<String> {
        let locations = locations(configuration);
        let names = locations.keys().cloned().collect();
        self.locations = Some(locations);
        self.invalid_name = invalid_name(configuration);
        names
    }

    /// Forgets the locations of all nodes, because the SystemConfiguration was deleted.
    pub(crate) fn forget_configuration(&mut self) {
        self.locations = None;
        self.invalid_name = None;
    }

    /// Returns the location of the node `name`: `None` while no SystemConfiguration was read, `Some(None)` if the
    /// SystemConfiguration has no node of this name.
    pub(crate) fn location(&self, name: &str) -> Option<Option<&Location>> {
        self.locations.as_ref().map(|locations| locations.get(name))
    }

    /// Returns the names of rabbits and of computes; `None` while no SystemConfiguration was read.
    pub(crate) fn nodes(&self) -> Option<Nodes> {
        let locations = self.locations.as_ref()?;
        let names = locations.keys().chain(self.sessions.keys()).cloned();
        let rabbits = names.filter(|name| self.is_rabbit(name)).collect();
        let computes = locations.keys().filter(|name| !self.is_rabbit(name)).cloned().collect();
        Some(Nodes { rabbits, computes })
    }

    /// Returns whether the SystemConfiguration or the agent's hello calls `name` a rabbit.
    pub(crate) fn is_rabbit(&self, name: &str) -> bool {
        matches!(self.location(name), Some(Some(Location::Rabbit)))
            || self
                .sessions
                .get(name)
                .is_some_and(|session| session.hello.role() == v1::Role::Rabbit)
    }

    /// Returns a record of every node that is configured or has sent a hello, sorted by name.
    pub(crate) fn records(&self, now: i64) -> Vec<NodeRecord> {
        let configured = self.locations.iter().flat_map(BTreeMap::keys);
        let names: BTreeSet<&String> = configured.chain(self.sessions.keys()).collect();
        names.into_iter().map(|name| self.record(name, now)).collect()
    }

    /// Describes faults and missing parts of the SystemConfiguration; `None` if there are none.
    pub(crate) fn gap(&self) -> Option<String> {
        if self.locations.is_some() {
            return self.invalid_name.clone();
        }
        Some("SystemConfiguration default/default was not read: nodes that never connected are missing, and no node has a location".to_owned())
    }

    /// Refuses an agent of the wrong kind: if a rabbit's agent and a compute's agent both worked on one node's
    /// ClientMounts, each would undo the other's work.
    fn check_role(&self, hello: &Hello) -> Result<(), RejectedHello> {
        let rabbit = hello.role() == v1::Role::Rabbit;
        let (configured, connected_as) = match self.location(&hello.node).flatten() {
            Some(Location::Rabbit) if !rabbit => ("rabbit", "compute"),
            Some(Location::Compute { .. } | Location::External) if rabbit => ("compute", "rabbit"),
            Some(Location::Rabbit | Location::Compute { .. } | Location::External) | None => {
                return Ok(());
            }
        };
        Err(RejectedHello::WrongRole { node: hello.node.clone(), configured, connected_as })
    }

    /// Refuses an agent that is older than the agent of the node's session.
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

    fn record(&self, name: &str, now: i64) -> NodeRecord {
        let location = self.location(name).flatten();
        let (rabbit, index) = match location {
            Some(Location::Compute { rabbit, index }) => (rabbit.clone(), *index),
            Some(Location::Rabbit | Location::External) | None => (String::new(), None),
        };
        let configured_role = match location {
            Some(Location::Rabbit) => v1::Role::Rabbit,
            Some(Location::Compute { .. } | Location::External) => v1::Role::Compute,
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
            let warning =
                session.expires.and_then(|expires| expiry_warning(session.connected, expires, now));
            record.certificate = warning.unwrap_or_default();
        }
        record
    }
}

#[cfg(test)]
mod tests;

//! The contents of a ledger: namespaces, intents and the drive's slot.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use storage::{desired::AllocationId, observed::NamespaceOwner};

use super::{Found, hex};

/// The allocation that owns a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    uid: String,
    index: u32,
}

impl Owner {
    pub(super) fn new(id: AllocationId) -> Self {
        Self { uid: id.owner.to_string(), index: id.index }
    }

    pub(super) fn id(&self) -> Option<AllocationId> {
        Some(AllocationId { owner: self.uid.parse().ok()?, index: self.index })
    }
}

/// The number of namespaces of an allocation in ledgers of an older Warren, which do not record it.
fn one_member() -> u16 {
    1
}

/// A namespace that is about to be created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Intent {
    pub(super) owner: Owner,
    pub(super) size: u64,
    /// Number of namespaces of the allocation.
    #[serde(rename = "of", default = "one_member")]
    pub(super) members: u16,
    /// NSIDs of the namespaces that existed before the drive received the command that creates this namespace.
    pub(super) before: BTreeSet<u32>,
    /// Time at which the intent was recorded, in seconds since 1970, for admins who read the file.
    pub(super) at: u64,
}

/// How far the creation of a namespace has come when it is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Creation {
    Complete,
    /// The namespace may hold data of earlier owners.
    ToZero,
    /// A crash interrupted the creation.
    Partial,
}

/// A namespace of an allocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) nsid: u32,
    pub(crate) nguid: String,
    pub(super) owner: Owner,
    pub(crate) size: u64,
    /// Number of namespaces of the allocation. Ledgers of an older Warren do not record the number, because each
    /// allocation had one namespace.
    #[serde(rename = "of", default = "one_member")]
    pub(crate) members: u16,
    /// Whether the namespace can be used.
    pub(super) whole: bool,
    /// Whether the namespace may hold data of earlier owners, and must be zeroed before it is `whole`. An agent that
    /// is older than this field counts such a namespace as partial, and deletes it.
    #[serde(default)]
    pub(crate) to_zero: bool,
    /// Whether the namespace was erased, so that only its deletion remains.
    #[serde(default)]
    pub(crate) erased: bool,
    /// Whether another namespace replaced this namespace, because its drive was gone for good.
    #[serde(default)]
    pub(super) replaced: bool,
    /// Names of the hosts that have access, by endpoint number. A drive itself knows only controllers, not names.
    pub(crate) hosts: BTreeMap<u8, String>,
}

impl Record {
    pub(super) fn is_of(&self, found: &Found) -> bool {
        (self.nsid, &*self.nguid, self.size) == (found.nsid, &*hex(found.nguid), found.size)
    }

    pub(crate) fn owner(&self) -> NamespaceOwner {
        match (self.owner.id(), self.whole || self.to_zero, self.replaced) {
            (Some(id), true, false) => NamespaceOwner::Ours(id),
            (Some(id), true, true) => NamespaceOwner::Replaced(id),
            (Some(id), false, _) => NamespaceOwner::Partial(id),
            (None, _, _) => {
                NamespaceOwner::Foreign(format!("{:?} is not the uid of an object", self.owner.uid))
            }
        }
    }
}

/// A drive's slot and serial number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SlotAndSerial {
    /// The name of the slot, which does not depend on the drive in the slot.
    pub(crate) slot: String,
    /// The drive's serial number. Unlike the NQN, it does not change with the drive's firmware.
    pub(crate) serial: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct File {
    pub(super) nqn: String,
    /// The drive's slot and serial number when the drive was last observed with recorded namespaces.
    #[serde(default, rename = "place")]
    pub(super) slot: Option<SlotAndSerial>,
    pub(super) intents: Vec<Intent>,
    pub(super) namespaces: Vec<Record>,
}

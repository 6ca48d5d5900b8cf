//! The contents of a ledger: namespaces, intents and the drive's slot.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Found, hex};
use crate::{desired::AllocationId, observed::NamespaceOwner};

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

/// The number of members in ledgers of an older Warren, which have no such field.
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
    /// NSIDs that existed before the drive was asked to create the namespace.
    pub(super) before: BTreeSet<u32>,
    /// Time of the intent in seconds since 1970, for admins who read the file.
    pub(super) at: u64,
}

/// A namespace of an allocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::linux::drives::nvme) struct Record {
    pub(in crate::linux::drives::nvme) nsid: u32,
    pub(in crate::linux::drives::nvme) nguid: String,
    pub(super) owner: Owner,
    pub(in crate::linux::drives::nvme) size: u64,
    /// Number of namespaces of the allocation. Ledgers of an older Warren have no number: each
    /// allocation had one namespace.
    #[serde(rename = "of", default = "one_member")]
    pub(in crate::linux::drives::nvme) members: u16,
    /// Whether its blocks are known to read as zero.
    pub(super) whole: bool,
    /// Whether it was erased and remains to be deleted.
    #[serde(default)]
    pub(super) erased: bool,
    /// Whether another namespace replaced it, because its drive was gone for good.
    #[serde(default)]
    pub(super) replaced: bool,
    /// Host names by endpoint number: a drive knows only controllers.
    pub(in crate::linux::drives::nvme) hosts: BTreeMap<u8, String>,
}

impl Record {
    pub(super) fn is_of(&self, found: &Found) -> bool {
        (self.nsid, &*self.nguid, self.size) == (found.nsid, &*hex(found.nguid), found.size)
    }

    pub(in crate::linux::drives::nvme) fn owner(&self) -> NamespaceOwner {
        match (self.owner.id(), self.whole, self.replaced) {
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
pub(in crate::linux::drives::nvme) struct SlotAndSerial {
    /// The name of the slot, independent of the drive in it.
    pub(in crate::linux::drives::nvme) slot: String,
    /// The drive's serial number: its NQN may change with its firmware.
    pub(in crate::linux::drives::nvme) serial: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct File {
    pub(super) nqn: String,
    /// The drive's slot when it was last observed with recorded namespaces.
    #[serde(default, rename = "place")]
    pub(super) slot: Option<SlotAndSerial>,
    pub(super) intents: Vec<Intent>,
    pub(super) namespaces: Vec<Record>,
}

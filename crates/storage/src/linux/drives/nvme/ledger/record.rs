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
    pub(super) fn of(id: AllocationId) -> Self {
        Self { uid: id.owner.to_string(), index: id.index }
    }

    pub(super) fn id(&self) -> Option<AllocationId> {
        Some(AllocationId { owner: self.uid.parse().ok()?, index: self.index })
    }
}

fn one() -> u16 {
    1
}

/// A namespace that is about to be created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Intent {
    pub(super) owner: Owner,
    pub(super) size: u64,
    /// How many namespaces the allocation is made of.
    #[serde(rename = "of", default = "one")]
    pub(super) members: u16,
    /// NSIDs that existed before.
    pub(super) before: BTreeSet<u32>,
    /// Seconds since 1970, for people who read the file.
    pub(super) at: u64,
}

/// A namespace of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::linux::drives::nvme) struct Record {
    pub(in crate::linux::drives::nvme) nsid: u32,
    pub(in crate::linux::drives::nvme) nguid: String,
    pub(super) owner: Owner,
    pub(in crate::linux::drives::nvme) size: u64,
    /// How many namespaces the allocation is made of. Ledgers of an older Warren have no number: each allocation had
    /// one namespace.
    #[serde(rename = "of", default = "one")]
    pub(in crate::linux::drives::nvme) members: u16,
    /// Its blocks are known to read as zero.
    pub(super) whole: bool,
    /// It was erased and remains to be deleted.
    #[serde(default)]
    pub(super) erased: bool,
    /// Its drive was gone for good, and another namespace replaced it.
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
                NamespaceOwner::Foreign(format!("{:?} is no object's uid", self.owner.uid))
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
    /// The drive's slot when it was last observed with anything of ours on it.
    #[serde(default, rename = "place")]
    pub(super) slot: Option<SlotAndSerial>,
    pub(super) intents: Vec<Intent>,
    pub(super) namespaces: Vec<Record>,
}

//! Simulates the slots of a rabbit: a drive is in its slot, is absent, or was replaced by another drive.

use super::FakeDrives;
use crate::desired::Nqn;

#[derive(Debug, Clone)]
pub(super) struct FakeDrive {
    pub(super) nqn: Nqn,
    pub(super) slot: u32,
    pub(super) capacity: u64,
    pub(super) presence: Presence,
    /// Whether the drive refuses to create, attach and delete namespaces.
    pub(super) refuses: bool,
}

/// Whether a drive is in its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    InItsSlot,
    /// The drive's slot is empty.
    Away,
    /// Another drive is in the drive's slot.
    Replaced,
}

impl FakeDrive {
    pub(super) fn new(slot: u32, generation: &str, capacity: u64) -> Self {
        let nqn = format!("nqn.2026-01.io.warren:fake:drive-{slot}{generation}");
        let nqn = nqn.parse().expect("printable, without '/'");
        Self { nqn, slot, capacity, presence: Presence::InItsSlot, refuses: false }
    }

    pub(super) fn is_here(&self) -> bool {
        self.presence == Presence::InItsSlot
    }
}

impl FakeDrives {
    fn in_slot(&mut self, slot: u32) -> Option<&mut FakeDrive> {
        self.drives
            .iter_mut()
            .find(|drive| drive.slot == slot && drive.presence != Presence::Replaced)
    }

    pub(in crate::fake) fn set_refusing(&mut self, slot: u32, refuses: bool) {
        self.in_slot(slot).into_iter().for_each(|drive| drive.refuses = refuses);
    }

    pub(in crate::fake) fn pull(&mut self, slot: u32) {
        self.in_slot(slot).into_iter().for_each(|drive| drive.presence = Presence::Away);
    }

    pub(in crate::fake) fn put_back(&mut self, slot: u32) {
        self.in_slot(slot).into_iter().for_each(|drive| drive.presence = Presence::InItsSlot);
    }

    pub(in crate::fake) fn swap(&mut self, slot: u32) {
        let Some(old) = self.in_slot(slot) else { return };
        old.presence = Presence::Replaced;
        let new = FakeDrive::new(slot, "-new", old.capacity);
        self.drives.push(new);
    }
}

//! Simulates the slots of a rabbit: a drive is in its slot, is absent, or was replaced by another drive.

use super::FakeDrives;
use crate::{
    desired::Nqn,
    fake::{errno, refused},
    host::StepError,
    observed::{Functions, Unready},
    step::DriveAction,
};

/// Number of virtual functions of a simulated drive, as on the drives of a rabbit.
const FUNCTIONS: u16 = 17;

#[derive(Debug, Clone)]
pub(super) struct FakeDrive {
    pub(super) nqn: Nqn,
    pub(super) slot: u32,
    pub(super) capacity: u64,
    pub(super) presence: Presence,
    /// Whether the drive refuses to create, attach and delete namespaces.
    pub(super) refuses: bool,
    pub(super) functions: Functions,
    /// Whether blocks that were never written return what an earlier namespace wrote there.
    pub(super) returns_old_data: bool,
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
        Self {
            nqn,
            slot,
            capacity,
            presence: Presence::InItsSlot,
            refuses: false,
            functions: up(),
            returns_old_data: false,
        }
    }

    pub(super) fn is_here(&self) -> bool {
        self.presence == Presence::InItsSlot
    }

    pub(super) fn is_up(&self) -> bool {
        self.functions == up()
    }

    pub(super) fn unready(&self) -> Unready {
        let functions = (self.is_here() && !self.is_up()).then(|| self.functions.clone());
        Unready { functions, ..Unready::default() }
    }

    fn change_functions(&mut self, action: &DriveAction) -> Result<(), StepError> {
        let functions = &mut self.functions;
        match action {
            DriveAction::FreeResources => functions.hoarded = false,
            DriveAction::EnableFunctions(count) => functions.enabled = *count,
            // A drive refuses to bring a function online without resources.
            DriveAction::StartFunctions(_) if functions.hoarded || functions.enabled == 0 => {
                return Err(refused("bring online", &self.nqn, errno::EIO));
            }
            DriveAction::StartFunctions(numbers) => {
                functions.offline.retain(|number| !numbers.contains(number));
            }
            DriveAction::BindFunctions(_) => functions.unbound = 0,
            DriveAction::SettleIntents | DriveAction::RecordSlot => {}
        }
        Ok(())
    }
}

/// The virtual functions of a drive that is ready.
fn up() -> Functions {
    Functions { wanted: FUNCTIONS, enabled: FUNCTIONS, ..Functions::default() }
}

/// The virtual functions of a drive after a power cycle, as the lab's scenario `nvme-power` observes them.
fn down() -> Functions {
    let offline = (1..=FUNCTIONS).collect();
    Functions { enabled: 0, hoarded: true, offline, unbound: 1, ..up() }
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

    pub(in crate::fake) fn return_old_data(&mut self, slot: u32) {
        self.in_slot(slot).into_iter().for_each(|drive| drive.returns_old_data = true);
    }

    pub(in crate::fake) fn lose_functions(&mut self, slot: u32) {
        self.in_slot(slot).into_iter().for_each(|drive| drive.functions = down());
    }

    pub(in crate::fake) fn prepare(
        &mut self,
        nqn: &Nqn,
        action: &DriveAction,
    ) -> Result<(), StepError> {
        self.working(nqn)?;
        let drive = self.drives.iter_mut().find(|drive| drive.nqn == *nqn);
        drive.map_or(Ok(()), |drive| drive.change_functions(action))
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
        let capacity = old.capacity;
        let generation = format!("-new-{}", self.drives.len());
        self.drives.push(FakeDrive::new(slot, &generation, capacity));
    }
}

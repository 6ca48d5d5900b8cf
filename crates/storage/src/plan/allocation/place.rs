//! Chooses the drives of an allocation, and the number of bytes on each.

use std::{cmp::Reverse, collections::BTreeSet};

use super::members::Wanted;
use crate::{
    Rejection,
    desired::{Allocation, Nqn, Spread},
    observed::{Drive, Observed},
};

/// The size of a namespace is a multiple of this number of bytes, the block size of a drive with 4 KiB blocks.
const BLOCK: u64 = 4096;

/// The drives for the new namespaces of an allocation, one namespace on each drive.
#[derive(Debug)]
pub(super) struct Placement<'a> {
    pub(super) drives: Vec<&'a Drive>,
    /// Bytes of each namespace.
    pub(super) size: u64,
    pub(super) members: u16,
}

/// Returns the capacity in bytes that a new allocation could have now: the free space of the usable drives, limited by
/// the disk beneath file-backed drives; 0 when fewer drives are usable than every allocation needs at least.
pub fn allocatable(observed: &Observed, spread: Spread) -> u64 {
    let free: Vec<_> = usable_drives(observed).map(Drive::free).collect();
    if free.len() < spread.least() {
        return 0;
    }
    let total = free.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
    // Each drive has the same share, in whole blocks: an allocation's size is a multiple of `piece`.
    let piece = BLOCK * free.len().min(spread.most()) as u64;
    observed.pool.map_or(total, |pool| total.min(pool.room() / piece * piece))
}

/// Chooses as many drives as the spread allows, and gives each the same share. The drives with the most free bytes come
/// first; of drives with equally many free bytes, the drive with the lowest slot number comes first.
pub(super) fn place_all<'a>(
    allocation: &Allocation,
    observed: &'a Observed,
) -> Result<Placement<'a>, Rejection> {
    let (requested, spread) = (allocation.capacity, allocation.spread);
    if observed.drives.is_empty() {
        return Err(Rejection::NoDrives { allocation: allocation.id, requested });
    }
    let mut drives = candidates(allocation, observed);
    let usable = drives.len();
    if usable < spread.least() {
        return Err(too_few(allocation, requested, (usable, spread.least()), observed));
    }
    drives.truncate(spread.most());
    let share = requested.div_ceil(drives.len() as u64);
    let size = share.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
    let members = u16::try_from(drives.len()).unwrap_or(u16::MAX);
    check_room(requested, Placement { drives, size, members }, observed)
}

/// Chooses the drives with the most free bytes among those that have no namespace of the allocation yet.
pub(super) fn place_more<'a>(
    allocation: &Allocation,
    wanted: Wanted,
    observed: &'a Observed,
) -> Result<Placement<'a>, Rejection> {
    let mut drives = candidates(allocation, observed);
    let usable = drives.len();
    let requested = wanted.size.saturating_mul(wanted.count as u64);
    if !observed.unreadable.is_empty() {
        // A drive whose ledger cannot be read may hold the missing namespaces.
        let (least, drives) = (wanted.count, observed.drives.len());
        let faulty = faulty_drives(observed, |drive| observed.unreadable.contains(&drive.nqn));
        return Err(Rejection::DrivesFaulty { requested, usable, least, drives, faulty });
    }
    if usable < wanted.count {
        return Err(too_few(allocation, requested, (usable, wanted.count), observed));
    }
    drives.truncate(wanted.count);
    check_room(
        requested,
        Placement { drives, size: wanted.size, members: wanted.members },
        observed,
    )
}

/// Returns the rejection for too few usable drives. If there would be enough drives once the faulty drives answer
/// again, the rejection makes the allocation wait for them: a drive that was too slow for one observation, or that the
/// kernel has not probed yet after a boot, is no reason to send the job to another rabbit.
fn too_few(
    allocation: &Allocation,
    requested: u64,
    (usable, least): (usize, usize),
    observed: &Observed,
) -> Rejection {
    let drives_in_use = drives_of(allocation, observed);
    let may_come =
        |drive: &Drive| !observed.is_replaced(&drive.nqn) && !drives_in_use.contains(&drive.nqn);
    let faulty = faulty_drives(observed, may_come);
    if usable + faulty.len() >= least {
        let drives = observed.drives.len();
        return Rejection::DrivesFaulty { requested, usable, least, drives, faulty };
    }
    let full = |drive: &Drive| Some((drive.nqn.clone(), observed.namespace_limit(drive)?));
    let (drives, full) = (observed.drives.len(), observed.drives.iter().filter_map(full).collect());
    Rejection::TooFewDrives { requested, usable, least, drives, full }
}

fn candidates<'a>(allocation: &Allocation, observed: &'a Observed) -> Vec<&'a Drive> {
    let drives_in_use = drives_of(allocation, observed);
    let mut drives: Vec<_> =
        usable_drives(observed).filter(|drive| !drives_in_use.contains(&drive.nqn)).collect();
    drives.sort_by_key(|drive| (Reverse(drive.free()), drive.slot, &drive.nqn));
    drives
}

/// Returns the drives that accept namespaces.
fn usable_drives(observed: &Observed) -> impl Iterator<Item = &Drive> {
    observed
        .drives
        .iter()
        .filter(|drive| drive.free() > 0 && observed.namespace_limit(drive).is_none())
}

fn faulty_drives(observed: &Observed, which: impl Fn(&Drive) -> bool) -> Vec<(Nqn, String)> {
    let fault = |drive: &Drive| Some((drive.nqn.clone(), drive.fault.clone()?));
    observed.drives.iter().filter(|drive| which(drive)).filter_map(fault).collect()
}

/// Returns the drives that have a namespace of the allocation.
fn drives_of<'a>(allocation: &Allocation, observed: &'a Observed) -> BTreeSet<&'a Nqn> {
    observed.of_allocation(allocation.id).map(|namespace| &namespace.id.subsystem).collect()
}

/// Returns the placement if every drive has room for its share. The drives are sorted by free bytes, so the last drive
/// has the fewest free bytes.
fn check_room<'a>(
    requested: u64,
    placement: Placement<'a>,
    observed: &Observed,
) -> Result<Placement<'a>, Rejection> {
    let (each, drives) = (placement.size, placement.drives.len());
    if let Some(tightest) = placement.drives.last().filter(|drive| drive.free() < each) {
        return Err(Rejection::InsufficientCapacity {
            requested,
            each,
            drives,
            lacking: tightest.nqn.clone(),
            left: tightest.free(),
            capacity: tightest.capacity,
        });
    }
    match observed.pool {
        Some(pool) if pool.room() < each.saturating_mul(drives as u64) => {
            Err(Rejection::PoolFull {
                requested,
                available: pool.available,
                promised: pool.promised,
            })
        }
        Some(_) | None => Ok(placement),
    }
}

//! What a drive shows.

use std::collections::BTreeSet;

use zerocopy::byteorder::little_endian::U16;

use super::{NvmeDrive, Result, attached_at, bytes, is_gone};
use crate::{
    health::{Smart, Temperature},
    linux::drives::nvme::{
        ledger::Found,
        wire::{self, IdentifyController, SmartLog},
    },
    observed::{Attached, DriveWarning, NamespaceOwner},
};

/// What a drive shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Contents {
    pub(in super::super) serial: String,
    pub(in super::super) model: String,
    pub(in super::super) firmware: String,
    /// Bytes.
    pub(in super::super) capacity: u64,
    pub(in super::super) unallocated: u64,
    /// How many namespaces it can have, where it tells.
    pub(in super::super) most_namespaces: Option<u32>,
    /// Percent of its life.
    pub(in super::super) wear: u8,
    pub(in super::super) warnings: Vec<DriveWarning>,
    pub(in super::super) smart: Smart,
    pub(in super::super) namespaces: Vec<Held>,
    /// NSIDs of namespaces that are recorded and that the drive has no more, with whose they were.
    pub(in super::super) lost: Vec<(u32, NamespaceOwner)>,
}

/// One of its namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Held {
    pub(in super::super) found: Found,
    pub(in super::super) owner: NamespaceOwner,
    /// How many its allocation is made of; 0 when nothing is recorded.
    pub(in super::super) of: u16,
    /// Hosts whose controllers it is attached to.
    pub(in super::super) access: BTreeSet<Attached>,
}

impl NvmeDrive {
    pub(in super::super) fn look(&self) -> Result<Contents> {
        self.settle()?;
        // The records first: what is made meanwhile is on the drive before it is recorded, and not lost.
        let mut lost = self.ledger.records();
        let (controller, found) = (self.controller()?, self.list()?);
        lost.retain(|record| found.iter().all(|it| it.nsid != record.nsid));
        let controllers = self.controllers(&controller)?;
        let mut namespaces = Vec::new();
        for it in &found {
            let owner = self.ledger.owner(it, &found);
            let attached = self.ask("list attached controllers", self.admin.attached(it.nsid));
            let record = self.ledger.record(it.nsid);
            let attached = match attached {
                // It went while we looked.
                Err(error) if is_gone(&error) => continue,
                other => other?,
            };
            let access = attached
                .into_iter()
                .filter_map(|controller| controllers.endpoint(controller))
                .map(|endpoint| attached_at(endpoint, record.as_ref()))
                .collect();
            let of = record.filter(|_| is_known(&owner)).map_or(0, |it| it.of);
            namespaces.push(Held { found: *it, owner, of, access });
        }
        let smart = self.ask("read the SMART log", self.admin.smart())?;
        Ok(Contents {
            wear: smart.used,
            warnings: warnings(smart.warnings),
            smart: Smart {
                spare: smart.spare,
                spare_threshold: smart.spare_threshold,
                media_errors: u64::try_from(smart.media_errors.get()).unwrap_or(u64::MAX),
                unsafe_shutdowns: u64::try_from(smart.unsafe_shutdowns.get()).unwrap_or(u64::MAX),
                temperature: temperature(&smart, &controller),
            },
            serial: wire::text(&controller.serial),
            model: wire::text(&controller.model),
            firmware: wire::text(&controller.firmware),
            capacity: bytes(controller.total.get())?,
            unallocated: bytes(controller.unallocated.get())?,
            most_namespaces: controller.limit(),
            namespaces,
            lost: lost.into_iter().map(|it| (it.nsid, it.owner())).collect(),
        })
    }
}

/// Critical Warning, bit by bit (Base 5.16.1.3, figure 207).
fn warnings(bits: u8) -> Vec<DriveWarning> {
    let named = [
        DriveWarning::SpareLow,
        DriveWarning::Temperature,
        DriveWarning::Degraded,
        DriveWarning::ReadOnly,
        DriveWarning::BackupFailed,
        DriveWarning::MemoryUnreliable,
    ];
    let set = named.into_iter().enumerate().filter(|(bit, _)| bits >> bit & 1 != 0);
    set.map(|(_, warning)| warning).collect()
}

fn temperature(smart: &SmartLog, controller: &IdentifyController) -> Option<Temperature> {
    let degrees = |kelvin: U16| Some(i64::from(kelvin.get()) - 273).filter(|it| *it > -273);
    let (warning, critical) = (degrees(controller.warm), degrees(controller.too_warm));
    Some(Temperature { now: degrees(smart.temperature)?, warning, critical })
}

fn is_known(owner: &NamespaceOwner) -> bool {
    !matches!(owner, NamespaceOwner::Foreign(_) | NamespaceOwner::Unknown)
}

//! Reads the contents of a drive.

use std::collections::BTreeSet;

use zerocopy::byteorder::little_endian::U16;

use super::{DriveError, NvmeDrive, Result, attached_at, bytes};
use crate::{
    health::{Smart, Temperature},
    linux::drives::nvme::{
        ledger::Found,
        ready::first_offline,
        status::Code,
        wire::{self, IdentifyController, SmartLog},
    },
    observed::{Attached, DriveWarning, NamespaceOwner},
};

/// The contents of a drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Contents {
    pub(in super::super) serial: String,
    pub(in super::super) model: String,
    pub(in super::super) firmware: String,
    /// Capacity in bytes.
    pub(in super::super) capacity: u64,
    pub(in super::super) unallocated: u64,
    /// How many namespaces it can have, when it says so.
    pub(in super::super) max_namespaces: Option<u32>,
    /// Percentage of its life used.
    pub(in super::super) wear: u8,
    pub(in super::super) warnings: Vec<DriveWarning>,
    pub(in super::super) smart: Smart,
    /// Whether every virtual function that a chassis needs is online.
    pub(in super::super) is_up: bool,
    pub(in super::super) namespaces: Vec<Held>,
    /// Recorded namespaces that the drive does not have any more, with their owners.
    pub(in super::super) lost: Vec<(u32, NamespaceOwner)>,
}

/// One of its namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Held {
    pub(in super::super) found: Found,
    pub(in super::super) owner: NamespaceOwner,
    /// How many namespaces its allocation is made of; 0 without a record.
    pub(in super::super) members: u16,
    /// Hosts that it is attached to.
    pub(in super::super) access: BTreeSet<Attached>,
}

impl NvmeDrive {
    pub(in super::super) fn look(&self) -> Result<Contents> {
        let controller = self.settle()?;
        // Read the records first: a namespace made meanwhile is on the drive before it has a record, and must not
        // count as vanished.
        let mut lost = self.ledger.records();
        let found = self.list()?;
        lost.retain(|record| found.iter().all(|found| found.nsid != record.nsid));
        let listed = self.secondaries()?;
        let controllers = self.controllers(&controller, &listed);
        let mut namespaces = Vec::new();
        for namespace in &found {
            let owner = self.ledger.owner(namespace, &found);
            let Some(attached) = self.attached(namespace)? else { continue };
            let record = self.ledger.record(namespace.nsid);
            let access = attached
                .into_iter()
                .filter_map(|controller| controllers.endpoint(controller))
                .map(|endpoint| attached_at(endpoint, record.as_ref()))
                .collect();
            let members = record.filter(|_| is_known(&owner)).map_or(0, |record| record.members);
            namespaces.push(Held { found: *namespace, owner, members, access });
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
            max_namespaces: controller.limit(),
            is_up: first_offline(&listed).is_none(),
            namespaces,
            lost: lost.into_iter().map(|record| (record.nsid, record.owner())).collect(),
        })
    }
}

impl NvmeDrive {
    /// CNTLIDs of the controllers that it is attached to; `None` when it was deleted meanwhile. For an NSID that does
    /// not exist drives may also return Invalid Field (Base 3.2.1.5).
    fn attached(&self, namespace: &Found) -> Result<Option<Vec<u16>>> {
        let asked = self.ask("list attached controllers", self.admin.attached(namespace.nsid));
        match asked {
            Err(error) if may_be_gone(&error) && !self.is_still(namespace)? => Ok(None),
            other => other.map(Some),
        }
    }
}

fn may_be_gone(error: &DriveError) -> bool {
    matches!(error.code(), Some(Code::InvalidNamespace | Code::InvalidField))
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
    let degrees =
        |kelvin: U16| Some(i64::from(kelvin.get()) - 273).filter(|degrees| *degrees > -273);
    let (warning, critical) = (degrees(controller.warm), degrees(controller.too_warm));
    Some(Temperature { now: degrees(smart.temperature)?, warning, critical })
}

fn is_known(owner: &NamespaceOwner) -> bool {
    !matches!(owner, NamespaceOwner::Foreign(_) | NamespaceOwner::Unknown)
}

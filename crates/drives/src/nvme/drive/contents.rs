//! Reads the contents of a drive. *Base* is the NVM Express Base Specification 2.0.

use storage::{
    desired::NamespaceId,
    health::{Smart, Temperature},
    observed::{Drive, DriveWarning, Namespace, NamespaceOwner},
};
use zerocopy::byteorder::little_endian::U16;

use super::{DriveError, NvmeDrive, Result, attached_at, bytes};
use crate::nvme::{
    functions::offline,
    hosts::Controllers,
    ledger::Found,
    status::code,
    wire::{self, IdentifyController, SmartLog},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contents {
    /// The drive, without its slot and label.
    pub(crate) drive: Drive,
    pub(crate) smart: Smart,
    /// Whether all virtual functions that a chassis needs are online.
    pub(crate) is_up: bool,
    /// The drive's namespaces, each with its NGUID but without its device on this node.
    pub(crate) namespaces: Vec<(Namespace, [u8; 16])>,
    /// Recorded namespaces that the drive no longer has, each with its recorded owner.
    pub(crate) lost: Vec<(NamespaceId, NamespaceOwner)>,
}

impl NvmeDrive {
    pub(crate) fn look(&self) -> Result<Contents> {
        let controller = self.controller()?;
        // Read the records before the drive's list. In the other order, a namespace created in between would be
        // recorded but not listed, and would count as vanished.
        let mut lost = self.ledger.records();
        let found = self.list()?;
        lost.retain(|record| found.iter().all(|found| found.nsid != record.nsid));
        let listed = self.secondaries()?;
        let controllers = self.controllers(&controller, &listed);
        let id = |nsid| NamespaceId { subsystem: self.nqn.clone(), nsid };
        let namespaces = self.namespaces(&found, &controllers)?;
        let smart = self.ask("read the SMART log", self.admin.smart())?;
        let capacity = bytes(controller.total.get())?;
        Ok(Contents {
            drive: Drive {
                serial: wire::text(&controller.serial),
                model: wire::text(&controller.model),
                firmware: wire::text(&controller.firmware),
                capacity,
                allocated: capacity.saturating_sub(bytes(controller.unallocated.get())?),
                max_namespaces: controller.limit(),
                wear: smart.used,
                warnings: warnings(smart.warnings),
                ..Drive::with_nqn(self.nqn.clone())
            },
            smart: Smart {
                spare: smart.spare,
                spare_threshold: smart.spare_threshold,
                media_errors: u64::try_from(smart.media_errors.get()).unwrap_or(u64::MAX),
                unsafe_shutdowns: u64::try_from(smart.unsafe_shutdowns.get()).unwrap_or(u64::MAX),
                temperature: temperature(&smart, &controller),
            },
            is_up: offline(&listed).next().is_none(),
            namespaces,
            lost: lost.into_iter().map(|record| (id(record.nsid), record.owner())).collect(),
        })
    }

    /// Returns the namespaces, each with its owner and the hosts that have access.
    fn namespaces(
        &self,
        found: &[Found],
        controllers: &Controllers,
    ) -> Result<Vec<(Namespace, [u8; 16])>> {
        let mut namespaces = Vec::new();
        for namespace in found {
            let owner = self.ledger.owner(namespace, found);
            let Some(attached) = self.attached_controllers(namespace)? else { continue };
            let record = self.ledger.record(namespace.nsid);
            let access = attached
                .into_iter()
                .filter_map(|controller| controllers.endpoint(controller))
                .map(|endpoint| attached_at(endpoint, record.as_ref()))
                .collect();
            let members = record.filter(|_| is_known(&owner)).map_or(0, |record| record.members);
            let id = NamespaceId { subsystem: self.nqn.clone(), nsid: namespace.nsid };
            let needs_erasure = !self.ledger.is_erased(namespace);
            let needs_zeroing = self.ledger.is_to_zero(namespace);
            let listed = Namespace {
                id,
                owner,
                size: namespace.size,
                access,
                device: None,
                members,
                needs_erasure,
                needs_zeroing,
            };
            namespaces.push((listed, namespace.nguid));
        }
        Ok(namespaces)
    }

    /// Lists the CNTLIDs of the controllers to which a namespace is attached; `None` when the namespace was deleted
    /// meanwhile. For an NSID that does not exist, some drives return Invalid Field (Base 3.2.1.5).
    fn attached_controllers(&self, namespace: &Found) -> Result<Option<Vec<u16>>> {
        let answer = self.admin.attached_controllers(namespace.nsid);
        match self.ask("list attached controllers", answer) {
            Err(error) if may_be_gone(&error) && !self.is_still(namespace)? => Ok(None),
            other => other.map(Some),
        }
    }
}

fn may_be_gone(error: &DriveError) -> bool {
    matches!(error.code(), Some(code::INVALID_NAMESPACE | code::INVALID_FIELD))
}

/// Returns the warnings whose bits are set in Critical Warning (Base 5.16.1.3, figure 207).
fn warnings(bits: u8) -> Vec<DriveWarning> {
    let by_bit = [
        DriveWarning::SpareLow,
        DriveWarning::Temperature,
        DriveWarning::Degraded,
        DriveWarning::ReadOnly,
        DriveWarning::BackupFailed,
        DriveWarning::MemoryUnreliable,
    ];
    let set = by_bit.into_iter().enumerate().filter(|(bit, _)| bits >> bit & 1 != 0);
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

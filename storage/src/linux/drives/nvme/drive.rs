//! One drive: its namespaces looked at, made, given to hosts, erased and deleted.

use std::{collections::BTreeSet, io, sync::Arc};

use thiserror::Error;

use super::{
    admin::{Admin, AdminError, Erase},
    hosts::{Controllers, NoController},
    ledger::{Found, Ledger, Record, Wanted},
    status::Code,
    wire::{
        self, BlockFormat, CRYPTOGRAPHIC_ERASE, DEALLOCATED_IS_ZERO, DEALLOCATED_READ,
        IdentifyController, IdentifyNamespace,
    },
};
use crate::{
    desired::{AllocationId, Endpoint, NodeName, Nqn},
    health::Smart,
    observed::{DriveWarning, NamespaceOwner},
};

/// Bytes of the blocks that namespaces are made with, as a power of two.
const BLOCK_POWER: u8 = 12;

/// A drive and what is recorded of it.
#[derive(Debug)]
pub(super) struct NvmeDrive {
    nqn: Nqn,
    admin: Admin,
    ledger: Arc<Ledger>,
}

/// What a drive shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) serial: String,
    pub(super) model: String,
    pub(super) firmware: String,
    /// Bytes.
    pub(super) capacity: u64,
    pub(super) unallocated: u64,
    /// Percent of its life.
    pub(super) wear: u8,
    pub(super) warnings: Vec<DriveWarning>,
    pub(super) smart: Smart,
    pub(super) namespaces: Vec<Held>,
}

/// One of its namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) found: Found,
    pub(super) owner: NamespaceOwner,
    /// How many its allocation is made of; 0 when nothing is recorded.
    pub(super) of: u16,
    /// Hosts whose controllers it is attached to.
    pub(super) access: BTreeSet<NodeName>,
}

/// A namespace that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) nsid: u32,
    /// It counts only once its blocks were made to read as zero.
    pub(super) to_zero: bool,
}

/// A drive that did not do as asked.
#[derive(Debug, Error)]
pub(super) enum DriveError {
    /// A command failed.
    #[error("{command}")]
    Command {
        command: &'static str,
        #[source]
        source: AdminError,
    },
    /// What the drive tells cannot be worked with.
    #[error("{0}")]
    Unfit(String),
    /// Its ledger cannot be written.
    #[error("write the drive's ledger")]
    Ledger(#[source] io::Error),
    /// Somebody else was faster.
    #[error("only {0} bytes are left by now")]
    NoRoom(u64),
    /// Not to be touched.
    #[error("it does not belong to {wanted}: {found:?}")]
    NotOurs { wanted: String, found: NamespaceOwner },
    /// The host is not plugged in.
    #[error(transparent)]
    NoController(#[from] NoController),
}

type Result<T> = std::result::Result<T, DriveError>;

impl NvmeDrive {
    pub(super) fn new(nqn: Nqn, admin: Admin, ledger: Arc<Ledger>) -> Self {
        Self { nqn, admin, ledger }
    }

    pub(super) fn admin(&self) -> &Admin {
        &self.admin
    }

    pub(super) fn look(&self) -> Result<Contents> {
        let (controller, found) = self.settled()?;
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
                .filter_map(|endpoint| name(endpoint, record.as_ref()))
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
            },
            serial: wire::text(&controller.serial),
            model: wire::text(&controller.model),
            firmware: wire::text(&controller.firmware),
            capacity: bytes(controller.total.get())?,
            unallocated: bytes(controller.unallocated.get())?,
            namespaces,
        })
    }

    /// Makes a namespace for `allocation`; `None` when it has one already.
    pub(super) fn create(
        &self,
        allocation: AllocationId,
        wanted: Wanted,
        now: u64,
    ) -> Result<Option<Made>> {
        let _turn = self.ledger.turn();
        let (controller, found) = self.settled()?;
        let ours = |it: &Found| self.ledger.owner(it, &found) == NamespaceOwner::Ours(allocation);
        if found.iter().any(ours) {
            return Ok(None);
        }
        let left = bytes(controller.unallocated.get())?;
        if left < wanted.size {
            return Err(DriveError::NoRoom(left));
        }
        let format = self.block_format(&found)?;
        let before: Vec<u32> = found.iter().map(|it| it.nsid).collect();
        self.ledger.intend(allocation, wanted, &before, now).map_err(DriveError::Ledger)?;
        match self.admin.create(wanted.size >> BLOCK_POWER, format) {
            Ok(nsid) => self.made(allocation, nsid, wanted.of).map(Some),
            Err(source) => Err(self.not_made(allocation, left, source)),
        }
    }

    fn made(&self, allocation: AllocationId, nsid: u32, of: u16) -> Result<Made> {
        let described = self.ask("identify the new namespace", self.admin.namespace(nsid))?;
        let found = describe(nsid, &described)?;
        if found.nguid == [0; 16] {
            self.ask("delete the new namespace", self.admin.delete(nsid))?;
            self.ledger.not_made(allocation).map_err(DriveError::Ledger)?;
            return Err(DriveError::Unfit(
                "the drive gives a namespace no NGUID, so that it cannot be told from its successors".to_owned(),
            ));
        }
        let whole = described.deallocation & DEALLOCATED_READ == DEALLOCATED_IS_ZERO;
        self.ledger.made(allocation, found, of, whole).map_err(DriveError::Ledger)?;
        Ok(Made { nsid, to_zero: !whole })
    }

    /// Records a namespace of which no record is left as one of `allocation`; its NGUID counts from now on.
    pub(super) fn adopt(&self, nsid: u32, allocation: AllocationId, wanted: Wanted) -> Result<()> {
        let _turn = self.ledger.turn();
        let (_, found) = self.settled()?;
        let namespace = found.iter().find(|it| it.nsid == nsid);
        let namespace = *namespace
            .ok_or_else(|| DriveError::Unfit(format!("the drive has no namespace {nsid}")))?;
        match self.ledger.owner(&namespace, &found) {
            NamespaceOwner::Ours(of) if of == allocation => return Ok(()),
            NamespaceOwner::Unknown => {}
            found => {
                return Err(DriveError::NotOurs { wanted: "nobody".to_owned(), found });
            }
        }
        if namespace.size != wanted.size || namespace.nguid == [0; 16] {
            return Err(DriveError::Unfit(format!(
                "namespace {nsid} has {} bytes and NGUID {}, not {} bytes and an NGUID",
                namespace.size,
                super::ledger::hex(namespace.nguid),
                wanted.size
            )));
        }
        self.ledger.made(allocation, namespace, wanted.of, true).map_err(DriveError::Ledger)
    }

    /// A drive that refused made nothing. Of one that did not answer nobody knows: the next look tells.
    fn not_made(&self, allocation: AllocationId, left: u64, source: AdminError) -> DriveError {
        if let AdminError::Status(_) = source
            && let Err(error) = self.ledger.not_made(allocation)
        {
            return DriveError::Ledger(error);
        }
        if source.code() == Some(Code::InsufficientCapacity) {
            return DriveError::NoRoom(left);
        }
        DriveError::Command { command: "create a namespace", source }
    }

    /// Erases and deletes a namespace of `allocation`; that it is gone already is fine.
    pub(super) fn delete(&self, nsid: u32, allocation: AllocationId) -> Result<()> {
        let (controller, found) = self.settled()?;
        if let Some(namespace) = found.iter().find(|it| it.nsid == nsid) {
            let owner = self.ledger.owner(namespace, &found);
            let ours = [
                NamespaceOwner::Ours(allocation),
                NamespaceOwner::Partial(allocation),
                NamespaceOwner::Replaced(allocation),
            ];
            if !ours.contains(&owner) {
                return Err(DriveError::NotOurs {
                    wanted: format!("allocation {allocation}"),
                    found: owner,
                });
            }
            self.erase(nsid, &controller)?;
            let _turn = self.ledger.turn();
            match self.admin.delete(nsid) {
                Err(error) if error.code() == Some(Code::InvalidNamespace) => {}
                other => self.ask("delete the namespace", other)?,
            }
            if self.ask("list namespaces", self.admin.allocated())?.contains(&nsid) {
                return Err(DriveError::Unfit("the drive still lists what it deleted".to_owned()));
            }
        }
        self.ledger.gone(nsid, allocation).map_err(DriveError::Ledger)
    }

    /// Nobody reaches the namespace while it is erased, but the physical function, from which the command must come.
    fn erase(&self, nsid: u32, controller: &IdentifyController) -> Result<()> {
        for attached in self.ask("list attached controllers", self.admin.attached(nsid))? {
            self.ask("detach the namespace", self.admin.detach(nsid, attached))?;
        }
        let erase = if controller.format & CRYPTOGRAPHIC_ERASE == 0 {
            Erase::UserData
        } else {
            Erase::Cryptographic
        };
        let format = self.ask("identify the namespace", self.admin.namespace(nsid))?.format;
        let physical = controller.controller.get();
        self.ask("attach the namespace for erasing", self.admin.attach(nsid, physical))?;
        let erased = self.ask("erase the namespace", self.admin.format(nsid, format, erase));
        self.ask("detach the namespace after erasing", self.admin.detach(nsid, physical))?;
        erased
    }

    /// Lets the host at `endpoint` reach a namespace of ours.
    pub(super) fn attach(&self, nsid: u32, endpoint: Endpoint, node: &NodeName) -> Result<()> {
        let (controller, found) = self.settled()?;
        self.known_as_ours(nsid, &found)?;
        let wanted = self.controllers(&controller)?.of(endpoint)?;
        // The name first: access that nobody is known to have would be withdrawn.
        self.ledger.named(nsid, endpoint.number(), node).map_err(DriveError::Ledger)?;
        self.ask("attach the namespace", self.admin.attach(nsid, wanted))
    }

    /// Lets `node` reach it no more; that the namespace is gone is fine.
    pub(super) fn detach(&self, nsid: u32, node: &NodeName) -> Result<()> {
        let (controller, found) = self.settled()?;
        if !found.iter().any(|it| it.nsid == nsid) {
            return Ok(());
        }
        self.known_as_ours(nsid, &found)?;
        let controllers = self.controllers(&controller)?;
        let record = self.ledger.record(nsid);
        for attached in self.ask("list attached controllers", self.admin.attached(nsid))? {
            let endpoint = controllers.endpoint(attached);
            if endpoint.and_then(|it| name(it, record.as_ref())).as_ref() == Some(node) {
                self.ask("detach the namespace", self.admin.detach(nsid, attached))?;
            }
        }
        Ok(())
    }

    fn known_as_ours(&self, nsid: u32, found: &[Found]) -> Result<()> {
        let namespace = found.iter().find(|it| it.nsid == nsid);
        let namespace = namespace
            .ok_or_else(|| DriveError::Unfit(format!("the drive has no namespace {nsid}")))?;
        match self.ledger.owner(namespace, found) {
            NamespaceOwner::Ours(_) | NamespaceOwner::Partial(_) | NamespaceOwner::Replaced(_) => {
                Ok(())
            }
            foreign @ (NamespaceOwner::Foreign(_) | NamespaceOwner::Unknown) => {
                Err(DriveError::NotOurs { wanted: "any allocation".to_owned(), found: foreign })
            }
        }
    }

    /// The drive's namespaces; what a crash left is given to the allocation it was made for, once.
    fn settled(&self) -> Result<(IdentifyController, Vec<Found>)> {
        let controller = self.ask("identify the drive", self.admin.controller())?;
        Ok((controller, self.ledger.settled(|| self.list(), DriveError::Ledger)?))
    }

    fn list(&self) -> Result<Vec<Found>> {
        let mut found = Vec::new();
        for nsid in self.ask("list namespaces", self.admin.allocated())? {
            match self.ask("identify a namespace", self.admin.namespace(nsid)) {
                Ok(described) if described.size.get() > 0 => {
                    found.push(describe(nsid, &described)?);
                }
                Ok(_) => {}
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    fn controllers(&self, controller: &IdentifyController) -> Result<Controllers> {
        let listed = self.ask("list virtual functions", self.admin.secondaries())?;
        Ok(Controllers::new(&self.nqn, controller.controller.get(), &listed))
    }

    /// The format of 4096-byte blocks without metadata that performs best. A drive that tells of no formats by themselves has
    /// them at its namespaces.
    fn block_format(&self, found: &[Found]) -> Result<u8> {
        let described = match (self.admin.common(), found.first()) {
            (Err(error), Some(any)) if error.code() == Some(Code::InvalidNamespace) => {
                self.admin.namespace(any.nsid)
            }
            (other, _) => other,
        };
        let described = self.ask("identify the drive's block formats", described)?;
        best_format(&described).ok_or_else(|| {
            DriveError::Unfit(
                "the drive has no format of 4096-byte blocks without metadata".to_owned(),
            )
        })
    }

    fn ask<T>(
        &self,
        command: &'static str,
        answer: std::result::Result<T, AdminError>,
    ) -> Result<T> {
        answer.map_err(|source| DriveError::Command { command, source })
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

fn is_known(owner: &NamespaceOwner) -> bool {
    !matches!(owner, NamespaceOwner::Foreign(_) | NamespaceOwner::Unknown)
}

fn is_gone(error: &DriveError) -> bool {
    let DriveError::Command { source, .. } = error else { return false };
    source.code() == Some(Code::InvalidNamespace)
}

/// What the host at `endpoint` is called; one that was attached by somebody else is called by its place.
fn name(endpoint: Endpoint, record: Option<&Record>) -> Option<NodeName> {
    let number = endpoint.number();
    let recorded = record.and_then(|it| it.hosts.get(&number)?.parse().ok());
    recorded.or_else(|| format!("endpoint-{number}").parse().ok())
}

fn describe(nsid: u32, described: &IdentifyNamespace) -> Result<Found> {
    let power = formats(described)
        .find_map(|(flbas, format)| (flbas == described.format & 0x6f).then_some(format.power));
    let size =
        power.and_then(|power| 1_u64.checked_shl(power.into())?.checked_mul(described.size.get()));
    let size = size
        .ok_or_else(|| DriveError::Unfit(format!("namespace {nsid} has a size that cannot be")))?;
    Ok(Found { nsid, nguid: described.nguid, size })
}

/// Formats by what FLBAS says for each: the index's bits 3:0 in 3:0, its bits 5:4 in 6:5.
fn formats(described: &IdentifyNamespace) -> impl Iterator<Item = (u8, BlockFormat)> {
    let count = usize::from(described.formats) + 1;
    let listed = described.format_list.iter().take(count);
    (0_u8..).map(|index| index & 0xf | index >> 4 << 5).zip(listed.copied())
}

fn best_format(described: &IdentifyNamespace) -> Option<u8> {
    formats(described)
        .filter(|(_, format)| format.metadata.get() == 0 && format.power == BLOCK_POWER)
        .min_by_key(|(_, format)| format.performance & 0b11)
        .map(|(flbas, _)| flbas)
}

fn bytes(wide: u128) -> Result<u64> {
    u64::try_from(wide)
        .map_err(|_| DriveError::Unfit(format!("the drive claims a capacity of {wide} bytes")))
}

#[cfg(test)]
mod tests;

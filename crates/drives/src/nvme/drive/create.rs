//! Creates namespaces, and records the allocation that owns each.

use storage::{desired::AllocationId, host::RoomRefused, observed::NamespaceOwner};

use super::{
    DriveError, NvmeDrive, Result, bytes,
    format::{BLOCK_POWER, best_format, describe},
};
use crate::nvme::{
    admin::{AdminError, check_not_given_up},
    ledger::{self, Creation, Wanted},
    status::code,
    wire::{DEALLOCATED_IS_ZERO, DEALLOCATED_READ, IdentifyController},
};

impl NvmeDrive {
    /// Creates a namespace for `allocation`, unless the drive already has a namespace of this allocation.
    pub(crate) fn create(&self, allocation: AllocationId, wanted: Wanted, now: u64) -> Result<()> {
        let _turn = self.ledger.turn();
        self.ask("begin", check_not_given_up())?;
        self.settle()?;
        if self.has_one_of(allocation)? {
            return Ok(());
        }
        let (_, before) = self.room(wanted.size)?;
        let format = self.block_format(before.first())?;
        self.ledger.intend(allocation, wanted, &before, now).map_err(DriveError::Ledger)?;
        match self.admin.create(wanted.size >> BLOCK_POWER, format) {
            Ok(nsid) => self.finish_creation(allocation, nsid, wanted.members),
            Err(source) => Err(self.creation_failed(allocation, wanted.size, source)),
        }
    }

    /// Returns the drive's Identify Controller and its NSIDs, if the drive reports room for another
    /// namespace of `size` bytes.
    fn room(&self, size: u64) -> Result<(IdentifyController, Vec<u32>)> {
        let controller = self.controller()?;
        let free = bytes(controller.unallocated.get())?;
        if free < size {
            return Err(DriveError::NoRoom(free));
        }
        let namespaces = self.ask("list namespaces", self.admin.allocated())?;
        match controller.limit() {
            Some(most) if namespaces.len() >= most as usize => Err(DriveError::NoIdentifier(most)),
            Some(_) | None => Ok((controller, namespaces)),
        }
    }

    fn has_one_of(&self, allocation: AllocationId) -> Result<bool> {
        for nsid in self.ledger.nsids_of(allocation) {
            let owner = self.find(nsid)?.and_then(|found| self.ledger.recorded_owner(&found));
            if owner == Some(NamespaceOwner::Ours(allocation)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn finish_creation(&self, allocation: AllocationId, nsid: u32, members: u16) -> Result<()> {
        let described = self.ask("identify the new namespace", self.admin.namespace(nsid))?;
        let found = describe(nsid, &described)?;
        if found.nguid == [0; 16] {
            self.ask("delete the new namespace", self.admin.delete(nsid))?;
            self.ledger.drop_intent(allocation).map_err(DriveError::Ledger)?;
            return Err(DriveError::Unfit(
                "the drive assigns no NGUID to a namespace, so the namespace cannot be distinguished from its successors".to_owned(),
            ));
        }
        let reads_zero = described.deallocation & DEALLOCATED_READ == DEALLOCATED_IS_ZERO;
        let created = if reads_zero { Creation::Complete } else { Creation::ToZero };
        self.ledger.record_created(allocation, found, members, created).map_err(DriveError::Ledger)
    }

    /// Adopts a namespace without a record: records it, with its NGUID, as a namespace of `allocation`.
    pub(crate) fn adopt(&self, nsid: u32, allocation: AllocationId, wanted: Wanted) -> Result<()> {
        let _turn = self.ledger.turn();
        self.settle()?;
        let namespace = self.require_existing(nsid)?;
        match self.owner(&namespace)? {
            NamespaceOwner::Ours(owner) if owner == allocation => return Ok(()),
            NamespaceOwner::Unknown => {}
            found => {
                return Err(DriveError::NotOurs { wanted: "unknown".to_owned(), found });
            }
        }
        if namespace.size != wanted.size || namespace.nguid == [0; 16] {
            return Err(DriveError::Unfit(format!(
                "namespace {nsid} has {} bytes and NGUID {}, not {} bytes and an NGUID",
                namespace.size,
                ledger::hex(namespace.nguid),
                wanted.size
            )));
        }
        self.ledger
            .record_created(allocation, namespace, wanted.members, Creation::Complete)
            .map_err(DriveError::Ledger)
    }

    /// Returns the error of a failed creation. Drops the recorded intent when the drive refused the command or did not
    /// get the command, because then the drive created no namespace. When the drive did not answer or failed while it
    /// executed the command, the intent stays until the next observation shows whether the namespace exists.
    fn creation_failed(
        &self,
        allocation: AllocationId,
        size: u64,
        source: AdminError,
    ) -> DriveError {
        let is_known = match &source {
            AdminError::Status(status) => status.is_refusal(),
            AdminError::GivenUp => true,
            _ => false,
        };
        if is_known && let Err(error) = self.ledger.drop_intent(allocation) {
            return DriveError::Ledger(error);
        }
        match source.code() {
            Some(code::INSUFFICIENT_CAPACITY | code::IDENTIFIER_UNAVAILABLE) => self
                .refused(size, &source)
                .map_or_else(|no_room_or_unread| no_room_or_unread, DriveError::Refused),
            _ => DriveError::Command { command: "create a namespace", source },
        }
    }

    /// Describes the refusal of a drive that reports enough room. Another observation would report the same room, so
    /// that the allocation must not be tried again on this drive.
    fn refused(&self, size: u64, why: &AdminError) -> Result<RoomRefused> {
        let (controller, namespaces) = self.room(size)?;
        Ok(RoomRefused {
            drive: self.nqn.clone(),
            size,
            left: bytes(controller.unallocated.get())?,
            capacity: bytes(controller.total.get())?,
            namespaces: namespaces.len(),
            max_namespaces: controller.limit(),
            why: why.to_string(),
        })
    }

    /// Returns the best-performing format with blocks of 4096 bytes and no metadata. If the drive itself does not list
    /// its formats, reads them from one of the drive's namespaces (`any`).
    fn block_format(&self, any: Option<&u32>) -> Result<u8> {
        let described = match (self.admin.common(), any) {
            (Err(error), Some(any)) if error.code() == Some(code::INVALID_NAMESPACE) => {
                self.admin.namespace(*any)
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
}

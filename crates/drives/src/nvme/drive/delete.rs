//! Erases and deletes namespaces.

use process::bounded::to_the_end;
use storage::desired::AllocationId;

use super::{DriveError, NvmeDrive, Result};
use crate::nvme::{
    admin::Erase,
    ledger::{Creation, Found},
    physical::FORMATS_ALL,
    status::code,
    wire::{CRYPTOGRAPHIC_ERASE, IdentifyController, IdentifyNamespace},
};

impl NvmeDrive {
    /// Erases a namespace of `allocation`, and detaches it from every host; succeeds also when the namespace no longer
    /// exists.
    pub(crate) fn erase(&self, nsid: u32, allocation: AllocationId) -> Result<()> {
        let controller = self.settle()?;
        let Some(namespace) = self.find(nsid)? else { return Ok(()) };
        self.require_owner(&namespace, allocation)?;
        // A namespace whose creation was interrupted may have only an intent: the record tells that it was erased.
        if self.ledger.recorded_owner(&namespace).is_none() {
            let recorded = self.ledger.record_created(allocation, namespace, 0, Creation::Partial);
            recorded.map_err(DriveError::Ledger)?;
        }
        self.erase_found(&namespace, &controller)
    }

    /// Deletes an erased namespace of `allocation`; succeeds also when the namespace no longer exists.
    pub(crate) fn delete(&self, nsid: u32, allocation: AllocationId) -> Result<()> {
        self.settle()?;
        let Some(namespace) = self.find(nsid)? else {
            return self.ledger.record_deleted(nsid, allocation).map_err(DriveError::Ledger);
        };
        self.require_owner(&namespace, allocation)?;
        if !self.ledger.is_erased(&namespace) {
            return Err(DriveError::Unfit(format!(
                "namespace {nsid} was attached to a host since it was erased, or was never erased"
            )));
        }
        // The namespace holds no data: delete it even when the caller has stopped waiting.
        to_the_end(|| self.delete_erased(&namespace, allocation))
    }

    fn delete_erased(&self, namespace: &Found, allocation: AllocationId) -> Result<()> {
        let _turn = self.ledger.turn();
        // While this thread waited for its turn, another may have deleted the namespace, and the drive may have reused
        // its NSID.
        if self.is_still(namespace)? {
            self.remove(namespace.nsid)?;
        }
        self.ledger.record_deleted(namespace.nsid, allocation).map_err(DriveError::Ledger)
    }

    fn require_owner(&self, namespace: &Found, allocation: AllocationId) -> Result<()> {
        let found = self.owner(namespace)?;
        if found.allocation() == Some(allocation) {
            return Ok(());
        }
        Err(DriveError::NotOurs { wanted: format!("allocation {allocation}"), found })
    }

    fn remove(&self, nsid: u32) -> Result<()> {
        match self.admin.delete(nsid) {
            Err(error) if error.code() == Some(code::INVALID_NAMESPACE) => {}
            other => self.ask("delete the namespace", other)?,
        }
        if self.ask("list namespaces", self.admin.allocated())?.contains(&nsid) {
            return Err(DriveError::Unfit(
                "the drive still lists the namespace that it deleted".to_owned(),
            ));
        }
        Ok(())
    }

    /// Erases a namespace, unless its record says that it is already erased. During the erasure the namespace is
    /// attached only to the physical function: Format acts only on namespaces that are attached to the controller that
    /// gets the command. The erasure may take longer than the caller waits.
    fn erase_found(&self, namespace: &Found, controller: &IdentifyController) -> Result<()> {
        if controller.formats_all() {
            return Err(DriveError::Unfit(FORMATS_ALL.to_owned()));
        }
        let nsid = namespace.nsid;
        let attached =
            self.ask("list attached controllers", self.admin.attached_controllers(nsid))?;
        self.identify_unchanged(namespace)?;
        for attached in attached {
            self.ask("detach the namespace", self.admin.detach(nsid, attached))?;
        }
        if self.ledger.is_erased(namespace) {
            return Ok(());
        }
        let erase = if controller.format & CRYPTOGRAPHIC_ERASE == 0 {
            Erase::UserData
        } else {
            Erase::Cryptographic
        };
        let physical = controller.controller.get();
        self.ask("attach the namespace for erasing", self.admin.attach(nsid, physical))?;
        let erased = self.identify_unchanged(namespace).and_then(|described| {
            self.ask("erase the namespace", self.admin.format(nsid, described.format, erase))
        });
        to_the_end(|| {
            let recorded = erased
                .and_then(|()| self.ledger.record_erased(namespace).map_err(DriveError::Ledger));
            let detached = self.admin.detach(nsid, physical);
            recorded.and(self.ask("detach the namespace after erasing", detached))
        })
    }

    /// Identifies the namespace just before the erasure, and fails when the drive has reused its NSID: the drive may
    /// have been busy for minutes since the last check.
    fn identify_unchanged(&self, namespace: &Found) -> Result<IdentifyNamespace> {
        let described = self.ask("identify the namespace", self.admin.namespace(namespace.nsid))?;
        if described.nguid == namespace.nguid {
            return Ok(described);
        }
        let why = format!(
            "namespace {} was replaced by another before it could be erased",
            namespace.nsid
        );
        Err(DriveError::Unfit(why))
    }
}

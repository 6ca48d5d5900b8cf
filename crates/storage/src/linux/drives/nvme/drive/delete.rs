//! Namespaces erased and deleted.

use super::{DriveError, NvmeDrive, Result};
use crate::{
    desired::AllocationId,
    linux::{
        bounded::to_the_end,
        drives::nvme::{
            admin::Erase,
            ledger::Found,
            physical::FORMATS_ALL,
            status::Code,
            wire::{CRYPTOGRAPHIC_ERASE, IdentifyController, IdentifyNamespace},
        },
    },
    observed::NamespaceOwner,
};

impl NvmeDrive {
    /// Erases and deletes a namespace of `allocation`; that it is gone already is fine.
    pub(in super::super) fn delete(&self, nsid: u32, allocation: AllocationId) -> Result<()> {
        let controller = self.settle()?;
        if let Some(namespace) = self.find(nsid)? {
            self.belongs(&namespace, allocation)?;
            self.erase(&namespace, &controller)?;
            // What is erased is of no use to anybody: who has gone on meanwhile need not ask for its end again.
            return to_the_end(|| self.delete_erased(&namespace, allocation));
        }
        self.ledger.gone(nsid, allocation).map_err(DriveError::Ledger)
    }

    fn delete_erased(&self, namespace: &Found, allocation: AllocationId) -> Result<()> {
        let _turn = self.ledger.turn();
        // While others had theirs it may have gone, and its NSID to another.
        if self.is_still(namespace)? {
            self.remove(namespace.nsid)?;
        }
        self.ledger.gone(namespace.nsid, allocation).map_err(DriveError::Ledger)
    }

    fn belongs(&self, namespace: &Found, allocation: AllocationId) -> Result<()> {
        let ours = [
            NamespaceOwner::Ours(allocation),
            NamespaceOwner::Partial(allocation),
            NamespaceOwner::Replaced(allocation),
        ];
        let found = self.owner(namespace)?;
        if ours.contains(&found) {
            return Ok(());
        }
        Err(DriveError::NotOurs { wanted: format!("allocation {allocation}"), found })
    }

    fn remove(&self, nsid: u32) -> Result<()> {
        match self.admin.delete(nsid) {
            Err(error) if error.code() == Some(Code::InvalidNamespace) => {}
            other => self.ask("delete the namespace", other)?,
        }
        if self.ask("list namespaces", self.admin.allocated())?.contains(&nsid) {
            return Err(DriveError::Unfit("the drive still lists what it deleted".to_owned()));
        }
        Ok(())
    }

    /// Nobody reaches the namespace while it is erased, but the physical function, from which the command must come. It is erased
    /// once: the drive may take longer than anybody waits.
    fn erase(&self, namespace: &Found, controller: &IdentifyController) -> Result<()> {
        if controller.formats_all() {
            return Err(DriveError::Unfit(FORMATS_ALL.to_owned()));
        }
        let nsid = namespace.nsid;
        let attached = self.ask("list attached controllers", self.admin.attached(nsid))?;
        self.identified(namespace)?;
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
        let erased = self.identified(namespace).and_then(|described| {
            self.ask("erase the namespace", self.admin.format(nsid, described.format, erase))
        });
        to_the_end(|| {
            let noted =
                erased.and_then(|()| self.ledger.erased(namespace).map_err(DriveError::Ledger));
            let detached = self.admin.detach(nsid, physical);
            noted.and(self.ask("detach the namespace after erasing", detached))
        })
    }

    /// The namespace as it is right before it is lost: a drive that was busy for minutes may have given its NSID to another.
    fn identified(&self, namespace: &Found) -> Result<IdentifyNamespace> {
        let described = self.ask("identify the namespace", self.admin.namespace(namespace.nsid))?;
        if described.nguid == namespace.nguid {
            return Ok(described);
        }
        let why = format!("namespace {} became another while it was to be erased", namespace.nsid);
        Err(DriveError::Unfit(why))
    }
}

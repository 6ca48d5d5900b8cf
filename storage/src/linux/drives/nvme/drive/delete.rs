//! Namespaces erased and deleted.

use super::{DriveError, NvmeDrive, Result};
use crate::{
    desired::AllocationId,
    linux::drives::nvme::{
        admin::Erase,
        status::Code,
        wire::{CRYPTOGRAPHIC_ERASE, IdentifyController},
    },
    observed::NamespaceOwner,
};

impl NvmeDrive {
    /// Erases and deletes a namespace of `allocation`; that it is gone already is fine.
    pub(in super::super) fn delete(&self, nsid: u32, allocation: AllocationId) -> Result<()> {
        self.settle()?;
        if let Some(namespace) = self.find(nsid)? {
            let owner = self.owner(&namespace)?;
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
            self.erase(nsid, &self.controller()?)?;
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
}

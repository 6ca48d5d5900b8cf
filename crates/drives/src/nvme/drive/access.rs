//! Attaches namespaces to hosts and detaches them.

use storage::desired::{Endpoint, NodeName};

use super::{DriveError, NvmeDrive, Result, attached_at};
use crate::nvme::ledger::Found;

impl NvmeDrive {
    /// Attaches a namespace that an allocation owns to the host at `endpoint`. Only the rabbit gets a namespace that must
    /// still be zeroed.
    pub(crate) fn attach(&self, nsid: u32, endpoint: Endpoint, node: &NodeName) -> Result<()> {
        let controller = self.settle()?;
        let namespace = self.require_existing(nsid)?;
        self.require_ours(&namespace)?;
        if endpoint != Endpoint::Rabbit && self.ledger.is_to_zero(&namespace) {
            let why = format!("namespace {nsid} may hold data of earlier owners: zero it first");
            return Err(DriveError::Unfit(why));
        }
        let wanted = self.controllers(&controller, &self.secondaries()?).controller(endpoint)?;
        // Record the name before the attachment. After a crash in between, the agent would otherwise find access
        // without a recorded name, and withdraw it.
        self.ledger.record_host(nsid, endpoint.number(), node).map_err(DriveError::Ledger)?;
        self.ask("attach the namespace", self.admin.attach(nsid, wanted))
    }

    /// Detaches a namespace from `node`; succeeds also when the namespace no longer exists.
    pub(crate) fn detach(&self, nsid: u32, node: &NodeName) -> Result<()> {
        let controller = self.settle()?;
        let Some(namespace) = self.find(nsid)? else { return Ok(()) };
        self.require_ours(&namespace)?;
        let controllers = self.controllers(&controller, &self.secondaries()?);
        let record = self.ledger.record(nsid);
        for attached in
            self.ask("list attached controllers", self.admin.attached_controllers(nsid))?
        {
            let endpoint = controllers.endpoint(attached);
            if endpoint.is_some_and(|endpoint| attached_at(endpoint, record.as_ref()).node == *node)
            {
                self.ask("detach the namespace", self.admin.detach(nsid, attached))?;
            }
        }
        Ok(())
    }

    fn require_ours(&self, namespace: &Found) -> Result<()> {
        let found = self.owner(namespace)?;
        if found.allocation().is_some() {
            return Ok(());
        }
        Err(DriveError::NotOurs { wanted: "an allocation".to_owned(), found })
    }
}

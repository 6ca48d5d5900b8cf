//! One drive: its namespaces looked at, made, given to hosts, erased and deleted.
//!
//! What changes a namespace asks the drive about that one and no other: the work of many allocations at once would grow with
//! the square of their number.

mod access;
mod contents;
mod create;
mod delete;
mod format;

use std::{io, sync::Arc};

use thiserror::Error;

use self::format::describe;
pub(super) use self::{
    contents::{Contents, Held},
    create::Made,
};
use super::{
    admin::{Admin, AdminError},
    hosts::{Controllers, NoController},
    ledger::{Found, Ledger, Record},
    status::Code,
    wire::{IdentifyController, SecondaryController, text},
};
use crate::{
    desired::{Endpoint, Nqn},
    host::RoomRefused,
    observed::{Attached, NamespaceOwner},
};

/// A drive and what is recorded of it.
#[derive(Debug)]
pub(super) struct NvmeDrive {
    nqn: Nqn,
    admin: Admin,
    ledger: Arc<Ledger>,
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
    /// Somebody else made the last namespace that it can have.
    #[error("it has all {0} namespaces that it can have by now")]
    NoIdentifier(u32),
    /// By what it tells itself, it has room.
    #[error(transparent)]
    Refused(RoomRefused),
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

    /// What it tells of itself: names and ids of functions pass on when drives come and go, and another may answer.
    fn controller(&self) -> Result<IdentifyController> {
        let answer = self.ask("identify the drive", self.admin.controller())?;
        match text(&answer.nqn).parse::<Nqn>() {
            Ok(other) if other != self.nqn => {
                Err(DriveError::Unfit(format!("drive {other} answers in its place")))
            }
            // Of a drive that has none Linux makes one up.
            _ => Ok(answer),
        }
    }

    /// What every question and change begins with: it is this drive that answers, and what a crash left on it is given to the
    /// allocation that it was made for, once.
    fn settle(&self) -> Result<IdentifyController> {
        let controller = self.controller()?;
        self.ledger.settle_once(|| self.list(), DriveError::Ledger)?;
        Ok(controller)
    }

    /// All namespaces of the drive.
    fn list(&self) -> Result<Vec<Found>> {
        let listed = self.ask("list namespaces", self.admin.allocated())?;
        let found = listed.into_iter().map(|nsid| self.find(nsid));
        found.filter_map(Result::transpose).collect()
    }

    /// One of them, while it is there.
    fn find(&self, nsid: u32) -> Result<Option<Found>> {
        match self.ask("identify a namespace", self.admin.namespace(nsid)) {
            Ok(described) if described.size.get() > 0 => describe(nsid, &described).map(Some),
            Ok(_) => Ok(None),
            Err(error) if error.code() == Some(Code::InvalidNamespace) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the NSID is still that namespace's: a drive gives it anew.
    fn is_still(&self, namespace: &Found) -> Result<bool> {
        Ok(self.find(namespace.nsid)?.is_some_and(|now| now.nguid == namespace.nguid))
    }

    fn known(&self, nsid: u32) -> Result<Found> {
        let absent = || DriveError::Unfit(format!("the drive has no namespace {nsid}"));
        self.find(nsid)?.ok_or_else(absent)
    }

    /// Whose a namespace is. The others of the drive matter only when there is no record of it.
    fn owner(&self, namespace: &Found) -> Result<NamespaceOwner> {
        match self.ledger.recorded(namespace) {
            Some(owner) => Ok(owner),
            None => Ok(self.ledger.owner(namespace, &self.list()?)),
        }
    }

    fn secondaries(&self) -> Result<Vec<SecondaryController>> {
        self.ask("list virtual functions", self.admin.secondaries())
    }

    fn controllers(
        &self,
        controller: &IdentifyController,
        listed: &[SecondaryController],
    ) -> Controllers {
        Controllers::new(&self.nqn, controller.controller.get(), listed)
    }

    fn ask<T>(
        &self,
        command: &'static str,
        answer: std::result::Result<T, AdminError>,
    ) -> Result<T> {
        answer.map_err(|source| DriveError::Command { command, source })
    }
}

impl DriveError {
    fn code(&self) -> Option<Code> {
        let Self::Command { source, .. } = self else { return None };
        source.code()
    }
}

/// The host at `endpoint`; one that was attached by somebody else is called by its place.
fn attached_at(endpoint: Endpoint, record: Option<&Record>) -> Attached {
    let recorded = record.and_then(|record| record.hosts.get(&endpoint.number())?.parse().ok());
    let node = recorded.unwrap_or_else(|| endpoint.name());
    Attached { endpoint: Some(endpoint), node }
}

fn bytes(wide: u128) -> Result<u64> {
    u64::try_from(wide)
        .map_err(|_| DriveError::Unfit(format!("the drive claims a capacity of {wide} bytes")))
}

#[cfg(test)]
mod tests;

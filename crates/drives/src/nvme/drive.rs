//! Reads, creates, attaches, detaches, erases and deletes the namespaces of one drive.
//!
//! A change to a namespace reads only that namespace from the drive: otherwise the number of commands for many
//! simultaneous allocations would grow with the square of their number.

mod access;
mod contents;
mod create;
mod delete;
mod format;

use std::{io, sync::Arc};

use storage::{
    desired::{Endpoint, Nqn},
    host::RoomRefused,
    observed::{Attached, NamespaceOwner},
};
use thiserror::Error;

pub(super) use self::contents::Contents;
use self::format::describe;
use super::{
    admin::{Admin, AdminError},
    hosts::{Controllers, NoController},
    ledger::{Found, Ledger, Record},
    status::code,
    wire::{IdentifyController, SecondaryController, text},
};

/// A drive and its ledger.
#[derive(Debug)]
pub(super) struct NvmeDrive {
    nqn: Nqn,
    admin: Admin,
    ledger: Arc<Ledger>,
}

/// Why a drive failed.
#[derive(Debug, Error)]
pub(super) enum DriveError {
    #[error("{command}")]
    Command {
        command: &'static str,
        #[source]
        source: AdminError,
    },
    #[error("{0}")]
    Unfit(String),
    #[error("write the drive's ledger")]
    Ledger(#[source] io::Error),
    /// Another creation took the room. The number is the drive's remaining free bytes.
    #[error("only {0} bytes are free")]
    NoRoom(u64),
    #[error("all {0} of its namespaces are in use: delete one, or use another drive")]
    NoIdentifier(u32),
    #[error(transparent)]
    Refused(RoomRefused),
    #[error("the namespace's owner is {found:?}, not {wanted}")]
    NotOurs { wanted: String, found: NamespaceOwner },
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

    /// Reads Identify Controller and checks the NQN in it: the device name or function id may belong to another drive
    /// by now, so that the wrong drive answers.
    fn controller(&self) -> Result<IdentifyController> {
        let answer = self.ask("identify the drive", self.admin.controller())?;
        match text(&answer.nqn).parse::<Nqn>() {
            Ok(other) if other != self.nqn => {
                Err(DriveError::Unfit(format!("drive {other} answers in its place")))
            }
            // Accept a drive that reports no valid NQN: the NQN under which the agent knows such a drive was generated
            // by Linux.
            _ => Ok(answer),
        }
    }

    /// Checks that the right drive answers. The first call after the agent's start also finds the namespaces that a
    /// crash left without a record, and records them for their allocations. Every change begins with this function.
    pub(super) fn settle(&self) -> Result<IdentifyController> {
        let controller = self.controller()?;
        self.ledger.settle_once(|| self.list(), DriveError::Ledger)?;
        Ok(controller)
    }

    /// Lists all namespaces of the drive.
    fn list(&self) -> Result<Vec<Found>> {
        let listed = self.ask("list namespaces", self.admin.allocated())?;
        let found = listed.into_iter().map(|nsid| self.find(nsid));
        found.filter_map(Result::transpose).collect()
    }

    /// Returns the namespace with this NSID, if it exists.
    fn find(&self, nsid: u32) -> Result<Option<Found>> {
        match self.ask("identify a namespace", self.admin.namespace(nsid)) {
            Ok(described) if described.size.get() > 0 => describe(nsid, &described).map(Some),
            Ok(_) => Ok(None),
            Err(error) if error.code() == Some(code::INVALID_NAMESPACE) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the NSID still belongs to that namespace: after a deletion, the drive may give the NSID to
    /// another namespace.
    fn is_still(&self, namespace: &Found) -> Result<bool> {
        Ok(self.find(namespace.nsid)?.is_some_and(|now| now.nguid == namespace.nguid))
    }

    fn require_existing(&self, nsid: u32) -> Result<Found> {
        let absent = || DriveError::Unfit(format!("the drive has no namespace {nsid}"));
        self.find(nsid)?.ok_or_else(absent)
    }

    /// Returns the owner of a namespace. Lists the drive's other namespaces only when this namespace has no record.
    fn owner(&self, namespace: &Found) -> Result<NamespaceOwner> {
        match self.ledger.recorded_owner(namespace) {
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
    fn code(&self) -> Option<u16> {
        let Self::Command { source, .. } = self else { return None };
        source.code()
    }
}

/// Returns the host at `endpoint`, under its recorded name; without a recorded name, under the name of the port.
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

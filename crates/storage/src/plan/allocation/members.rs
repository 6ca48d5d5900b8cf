//! Compares the namespaces that an allocation has with the namespaces that it should have, according to the drives,
//! their ledgers and the object's status.

use std::fmt;

use crate::{
    Rejection, Step,
    desired::{Allocation, NamespaceId, Reported},
    observed::{Namespace, NamespaceOwner, Observed},
};

/// A namespace of an allocation that no host can reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub id: NamespaceId,
    pub why: Absence,
}

/// The reason why a namespace cannot be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absence {
    /// The namespace's drive cannot be used now, for this reason. The data of the namespace may still exist.
    Drive(String),
    /// The namespace's drive is absent, and the drive's ledger has no record of the namespace.
    NoDrive,
    /// Another drive is in the slot of the namespace's drive.
    Replaced,
    /// The namespace's drive is present and does not have the namespace.
    Deleted,
    Partial,
    /// The namespace has no record, and its size, in bytes, is not the reported size: it is a different namespace
    /// with the same NSID.
    Size(u64),
    /// The namespace has no record, and the status of another allocation also names it.
    Contested,
    /// The namespace has no record, and some of the namespaces that the status names do not exist, so that none of
    /// them can be adopted.
    Unrecorded,
    /// The namespace belongs to another owner, which the text names.
    Other(String),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NamespaceId { subsystem, nsid } = &self.id;
        write!(f, "namespace {nsid} of {subsystem} ")?;
        match &self.why {
            Absence::Drive(fault) => write!(f, "cannot be reached: {fault}"),
            Absence::NoDrive => f.write_str("cannot be reached: its drive is missing"),
            Absence::Replaced => {
                f.write_str("is gone: another drive is in its drive's slot, and the allocation has no successor for it: --replace-drives is false, no drive has room, or it was the allocation's only namespace")
            }
            Absence::Deleted => f.write_str("is not on its drive"),
            Absence::Partial => f.write_str("is being deleted"),
            Absence::Size(size) => write!(f, "has {size} bytes, which differs from the size in the status"),
            Absence::Contested => f.write_str("is listed in another allocation's status too"),
            Absence::Unrecorded => {
                f.write_str("has no record, and the agent adopts it only together with all other namespaces of the allocation")
            }
            Absence::Other(owner) => write!(f, "does not belong to the allocation: {owner}"),
        }
    }
}

/// Returns the namespaces of an allocation that cannot be reached.
pub fn missing_namespaces(allocation: &Allocation, observed: &Observed) -> Vec<Missing> {
    Members::new(allocation, observed).unreachable()
}

/// The namespaces to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    All,
    /// The missing namespaces, after a crash interrupted the creation.
    More(Wanted),
}

/// The number and size of namespaces to create, each on a drive that has no namespace of the allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) count: usize,
    /// Size of each namespace in bytes.
    pub(super) size: u64,
    /// Number of namespaces of the allocation.
    pub(super) members: u16,
}

/// The namespaces of one allocation.
#[derive(Debug)]
pub(super) struct Members<'a> {
    pub(super) allocation: &'a Allocation,
    /// Namespaces that are recorded for the allocation, on drives that can be used.
    pub(super) reachable: Vec<&'a Namespace>,
    /// Namespaces that are recorded for the allocation, on drives that are gone for good.
    pub(super) replaced: Vec<&'a Namespace>,
    /// Namespaces that are recorded for the allocation, on drives that cannot be used now, each with the drive's fault.
    away: Vec<(&'a Namespace, &'a str)>,
    /// Namespaces that the status names and that have no record, if nothing contradicts that they
    /// belong to the allocation.
    adoptable: Vec<&'a Namespace>,
    /// Namespaces that the status names and that are absent, or recorded for another owner.
    lost: Vec<Missing>,
}

impl<'a> Members<'a> {
    pub(super) fn new(allocation: &'a Allocation, observed: &'a Observed) -> Self {
        let (reachable, replaced, away) = (Vec::new(), Vec::new(), Vec::new());
        let (adoptable, lost) = (Vec::new(), Vec::new());
        let mut members = Self { allocation, reachable, replaced, away, adoptable, lost };
        let ours = NamespaceOwner::Ours(allocation.id);
        for namespace in observed.namespaces.iter().filter(|namespace| namespace.owner == ours) {
            let drive = &namespace.id.subsystem;
            if observed.is_replaced(drive) {
                members.replaced.push(namespace);
            } else if let Some(fault) = fault(&namespace.id, observed) {
                members.away.push((namespace, fault));
            } else {
                members.reachable.push(namespace);
            }
        }
        for reported in &allocation.reported {
            members.add_reported(reported, observed);
        }
        if members.missing_count() == Some(0) {
            members.lost.clear();
            members.adoptable.clear();
        }
        members
    }

    /// Returns the number of missing namespaces; `None` when no record says how many the allocation should have. If the
    /// allocation has as many namespaces as its records say, it never had others: any other namespace in the status was
    /// added by a user who edited the status.
    fn missing_count(&self) -> Option<usize> {
        let away = self.away.iter().map(|(namespace, _)| *namespace);
        let all: Vec<_> =
            self.reachable.iter().chain(&self.replaced).copied().chain(away).collect();
        let members =
            all.iter().map(|namespace| namespace.members).max().filter(|members| *members > 0)?;
        Some(usize::from(members).saturating_sub(all.len()))
    }

    fn add_reported(&mut self, reported: &Reported, observed: &'a Observed) {
        let id = self.allocation.id;
        let found = observed.namespaces.iter().find(|namespace| namespace.id == reported.id);
        let why = match found.map(|namespace| (namespace, &namespace.owner)) {
            Some((_, NamespaceOwner::Ours(owner) | NamespaceOwner::Replaced(owner)))
                if *owner == id =>
            {
                return;
            }
            Some((_, NamespaceOwner::Partial(owner))) if *owner == id => Absence::Partial,
            Some((
                _,
                NamespaceOwner::Ours(owner)
                | NamespaceOwner::Partial(owner)
                | NamespaceOwner::Replaced(owner),
            )) => Absence::Other(format!("it is recorded for allocation {owner}")),
            Some((_, NamespaceOwner::Foreign(why))) => Absence::Other(why.clone()),
            Some((namespace, NamespaceOwner::Unknown)) if namespace.size != reported.size => {
                Absence::Size(namespace.size)
            }
            Some((_, NamespaceOwner::Unknown)) if reported.contested => Absence::Contested,
            Some((namespace, NamespaceOwner::Unknown)) => {
                self.adoptable.push(namespace);
                return;
            }
            None => match fault(&reported.id, observed) {
                Some(fault) => Absence::Drive(fault.to_owned()),
                None if observed.drives.iter().any(|drive| drive.nqn == reported.id.subsystem) => {
                    Absence::Deleted
                }
                None => Absence::NoDrive,
            },
        };
        self.lost.push(Missing { id: reported.id.clone(), why });
    }

    /// Plans to adopt all namespaces that the status names, if all of them exist and only their records are missing. If
    /// some of them do not exist, plans nothing, because the status may then be wrong about the others too.
    pub(super) fn adopt(&self) -> Vec<Step> {
        let members = u16::try_from(self.allocation.reported.len()).unwrap_or(u16::MAX);
        let adopt = |namespace: &&Namespace| Step::AdoptNamespace {
            id: namespace.id.clone(),
            allocation: self.allocation.id,
            size: namespace.size,
            members,
        };
        let fits = self.missing_count().is_none_or(|missing| self.adoptable.len() <= missing);
        let whole = self.lost.is_empty() && fits;
        self.adoptable.iter().filter(|_| whole).map(adopt).collect()
    }

    /// Rejects an allocation whose object reports namespaces, when none of them can be reached.
    pub(super) fn check(&self) -> Result<(), Rejection> {
        let missing = self.unreachable();
        if self.reachable.is_empty() && !missing.is_empty() {
            return Err(Rejection::Lost { allocation: self.allocation.id, missing });
        }
        Ok(())
    }

    pub(super) fn need(&self) -> Need {
        let known = self.reachable.len() + self.away.len() + self.replaced.len();
        let Some(any) = self.reachable.first() else { return Need::All };
        let members = self.reachable.iter().map(|namespace| namespace.members).max().unwrap_or(0);
        let count = usize::from(members).saturating_sub(known);
        // Namespaces are added only if a crash interrupted the creation of the allocation. If the object's status
        // reports namespaces, the creation was complete once, and a namespace that is missing now is lost.
        if count > 0 && self.allocation.reported.is_empty() {
            return Need::More(Wanted { count, size: any.size, members });
        }
        Need::Nothing
    }

    /// Returns the replacements that must still be created for namespaces that are gone for good; `None` when
    /// no namespace is to be replaced. The only namespace of an allocation is not replaced, because its
    /// replacement would be empty.
    pub(super) fn successors(&self) -> Option<Wanted> {
        let (replaced, any) = (self.replaced.first()?, self.reachable.first()?);
        let reported = &self.allocation.reported;
        if !self.allocation.replace || reported.len() < 2 {
            return None;
        }
        let is_new =
            |namespace: &&Namespace| reported.iter().all(|reported| reported.id != namespace.id);
        let known =
            self.reachable.iter().copied().chain(self.away.iter().map(|(namespace, _)| *namespace));
        let created = known.filter(is_new).count();
        Some(Wanted {
            count: self.replaced.len().saturating_sub(created),
            size: replaced.size,
            members: any.members,
        })
    }

    fn unreachable(&self) -> Vec<Missing> {
        let away = self
            .away
            .iter()
            .map(|(namespace, fault)| (*namespace, Absence::Drive((*fault).to_owned())));
        let replaced = self.replaced.iter().map(|namespace| (*namespace, Absence::Replaced));
        let unrecorded = self.adoptable.iter().map(|namespace| (*namespace, Absence::Unrecorded));
        let to_missing =
            |(namespace, why): (&Namespace, Absence)| Missing { id: namespace.id.clone(), why };
        let mut missing = self.lost.clone();
        missing.extend(away.chain(replaced).chain(unrecorded).map(to_missing));
        missing
    }
}

/// Returns the reason why the namespace's drive cannot be used, if any.
fn fault<'a>(id: &NamespaceId, observed: &'a Observed) -> Option<&'a str> {
    let drive = observed.drives.iter().find(|drive| drive.nqn == id.subsystem)?;
    drive.fault.as_deref()
}

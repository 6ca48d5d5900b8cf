//! Compares the facts of a health check with those of earlier checks, and decides which conditions hold. Does no I/O;
//! the caller passes the time.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use storage::{
    Observed,
    desired::Nqn,
    health::{DriveFacts, Facts, Link, LinkErrors, Smart},
    observed::{DeviceNumber, Drive},
};

use super::{
    condition::{Condition, Finding, Kind, Subject},
    rules::{CheckFacts, DrivesRead, ENTER, LEAVE, findings, temperature},
};

/// Time between two checks while a condition lasts whose end no event announces.
const RECHECK: Duration = Duration::from_secs(60);

/// The conditions of a rabbit, and the state with which the next check is compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    pub conditions: BTreeMap<(Subject, Kind), Condition>,
    /// The earliest time at which a condition may end; the next check should not be later.
    pub settles: Option<Instant>,
    /// The time of the next check for conditions whose end no event announces, or which could not be checked when they
    /// were due to end.
    pub recheck: Option<Instant>,
    known: Known,
}

/// The state that earlier checks saw, with which the next check is compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) counters: BTreeMap<Nqn, Counters>,
    /// Drives that any check has seen since the agent started.
    pub(super) drives: BTreeMap<Nqn, Drive>,
    /// Namespaces that the last check of the drives missed.
    pub(super) missed: BTreeSet<String>,
    /// Mounts that were writable, by mount point and device.
    pub(super) writable: BTreeSet<(String, DeviceNumber)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) smart: Option<Smart>,
    pub(super) errors: Option<LinkErrors>,
}

/// Whether a check covers a condition.
enum Coverage {
    /// The subject of the condition no longer exists.
    Gone,
    /// The check did not read the subject.
    NotRead,
    Read,
}

impl Judgement {
    /// Adds the drives that earlier checks saw and that are missing now: no other record names a drive without
    /// namespaces. A drive that cannot be read keeps the slot, label, serial number, model and firmware that an earlier
    /// check read. An agent that has just started has made no earlier check, so it adds nothing.
    #[must_use]
    pub fn with_missing(&self, mut observed: Observed) -> Observed {
        for drive in observed.drives.iter_mut().filter(|drive| drive.fault.is_some()) {
            if let Some(known) = self.known.drives.get(&drive.nqn) {
                fill_in(drive, known);
            }
        }
        let is_there = |nqn: &Nqn| observed.drives.iter().any(|drive| drive.nqn == *nqn);
        let missing = self.known.drives.values().filter(|drive| !is_there(&drive.nqn));
        let missing: Vec<_> = missing
            .map(|drive| Drive {
                capacity: 0,
                allocated: 0,
                warnings: Vec::new(),
                fault: Some(MISSING.to_owned()),
                ..drive.clone()
            })
            .collect();
        observed.drives.extend(missing);
        observed.drives.sort_by(|a, b| a.nqn.cmp(&b.nqn));
        observed
    }
}

/// Copies the fields that an unreadable drive does not report from the drive's last known state.
fn fill_in(drive: &mut Drive, known: &Drive) {
    if drive.model.is_empty() {
        drive.slot = known.slot;
    }
    let texts = [
        (&mut drive.serial, &known.serial),
        (&mut drive.model, &known.model),
        (&mut drive.firmware, &known.firmware),
        (&mut drive.label, &known.label),
    ];
    for (text, known) in texts.into_iter().filter(|(text, _)| text.is_empty()) {
        text.clone_from(known);
    }
}

const MISSING: &str =
    "it is not there any more: put it back, or restart rabbit-agent if it is gone for good";

/// Returns the judgement after a check. Conditions that the check does not cover stay as they were.
pub fn judge(before: &Judgement, check: &CheckFacts<'_>, now: Instant) -> Judgement {
    let staying = findings(check, &before.known, LEAVE);
    let mut conditions = BTreeMap::new();
    for (key, condition) in &before.conditions {
        let stays = match coverage(check, key) {
            Coverage::Gone => None,
            Coverage::NotRead => Some(condition.clone()),
            Coverage::Read => match staying.get(key) {
                Some(finding) => Some(entered(finding.clone())),
                None => settling(key.1, condition, now),
            },
        };
        conditions.extend(stays.map(|condition| (key.clone(), condition)));
    }
    let entering = findings(check, &before.known, ENTER);
    conditions.extend(entering.into_iter().map(|(key, finding)| (key, entered(finding))));
    let end_of = |((_, kind), condition): (&(Subject, Kind), &Condition)| ends(*kind, condition);
    let settles = conditions.iter().filter_map(end_of).filter(|end| *end > now).min();
    let lasts = |entry: (&(Subject, Kind), &Condition)| match end_of(entry) {
        None => !entry.0.1.needs_no_check(),
        // The condition was due to end, but this check did not read its subject. An immediate check would not read it
        // either, so the next check comes after `RECHECK`.
        Some(end) => end <= now,
    };
    let known = learn(&before.known, check);
    let in_doubt = conditions.iter().any(lasts) || !known.missed.is_empty();
    let recheck = in_doubt.then(|| now + RECHECK);
    Judgement { conditions, settles, recheck, known }
}

fn entered(finding: Finding) -> Condition {
    Condition { severity: finding.severity, text: finding.text, clean_since: None }
}

fn settling(kind: Kind, condition: &Condition, now: Instant) -> Option<Condition> {
    let clean_since = condition.clean_since.or(Some(now));
    let condition = Condition { clean_since, ..condition.clone() };
    ends(kind, &condition).is_some_and(|end| end > now).then_some(condition)
}

/// Returns the end of a condition that checks no longer find; `None` while they find it.
fn ends(kind: Kind, condition: &Condition) -> Option<Instant> {
    Some(condition.clean_since? + kind.settles_in())
}

fn coverage(check: &CheckFacts<'_>, (subject, kind): &(Subject, Kind)) -> Coverage {
    match subject {
        Subject::Rabbit => rabbit_coverage(check, *kind),
        Subject::Drive(nqn) => drive_coverage(check, nqn, *kind),
        Subject::Compute(slot) => match check.links.map(|links| links.get(slot)) {
            None => Coverage::NotRead,
            Some(Some(_)) if !check.computes.contains_key(slot) => Coverage::Gone,
            Some(None) => Coverage::Gone,
            Some(Some(Link::Unread(_))) if *kind != Kind::Unreadable => Coverage::NotRead,
            Some(Some(_)) => Coverage::Read,
        },
        Subject::FileSystem(target) => {
            let listed = check.facts.and_then(|facts| facts.file_systems.as_ref());
            listed_coverage(
                listed.map(|all| all.iter().any(|file_system| file_system.target == *target)),
            )
        }
        Subject::Group(name) => {
            let listed = check.facts.and_then(|facts| facts.groups.as_ref());
            listed_coverage(listed.map(|all| all.iter().any(|group| group.name == *name)))
        }
    }
}

fn listed_coverage(listed: Option<bool>) -> Coverage {
    match listed {
        None => Coverage::NotRead,
        Some(false) => Coverage::Gone,
        Some(true) => Coverage::Read,
    }
}

fn rabbit_coverage(check: &CheckFacts<'_>, kind: Kind) -> Coverage {
    let of_facts = |is_there: fn(&Facts) -> bool| match check.facts {
        Some(facts) if is_there(facts) => Coverage::Read,
        _ => Coverage::NotRead,
    };
    match (kind, check.drives) {
        (Kind::Unreadable, _) => of_facts(|_| true),
        (Kind::Memory, _) => of_facts(|facts| facts.memory.is_some()),
        (Kind::Pressure, _) => of_facts(|facts| facts.pressure.is_some()),
        (Kind::Load, _) => of_facts(|facts| facts.load.is_some()),
        (_, DrivesRead::NotRead) => Coverage::NotRead,
        (Kind::DrivesUnreadable, _) | (_, DrivesRead::Complete { .. }) => Coverage::Read,
        (_, DrivesRead::Failed) => Coverage::NotRead,
    }
}

fn drive_coverage(check: &CheckFacts<'_>, nqn: &Nqn, kind: Kind) -> Coverage {
    let DrivesRead::Complete { observed, .. } = check.drives else { return Coverage::NotRead };
    let Some(drive) = observed.drives.iter().find(|drive| drive.nqn == *nqn) else {
        return Coverage::Gone;
    };
    let facts = check.facts.and_then(|facts| facts.drives.get(nqn));
    let smart = observed.smart.get(nqn);
    let is_seen = match kind {
        Kind::Unusable => true,
        Kind::Warned(_) | Kind::Worn => drive.fault.is_none(),
        Kind::SpareLow | Kind::MediaErrors | Kind::PowerLost => smart.is_some(),
        Kind::Hot | Kind::TooHot => temperature(facts, smart).is_some(),
        _ => facts.is_some_and(|facts| is_read(facts, kind)),
    };
    if is_seen { Coverage::Read } else { Coverage::NotRead }
}

/// Returns whether the check read the fact on which a condition of this kind depends.
fn is_read(facts: &DriveFacts, kind: Kind) -> bool {
    match kind {
        Kind::LinkLost | Kind::LinkDegraded => {
            facts.link.as_ref().is_some_and(|link| !matches!(link, Link::Unread(_)))
        }
        Kind::LinkErrors => facts.errors.is_some(),
        Kind::Controller => !facts.controller.is_empty(),
        Kind::ReadOnlyNamespace => facts.read_only.is_some(),
        _ => true,
    }
}

/// Returns the state with which the next check is compared.
fn learn(before: &Known, check: &CheckFacts<'_>) -> Known {
    let mut known = before.clone();
    if let DrivesRead::Complete { observed, lost, .. } = check.drives {
        known.missed = lost.iter().cloned().collect();
        for drive in &observed.drives {
            if drive.fault.is_none() {
                known.drives.insert(drive.nqn.clone(), drive.clone());
            }
            let counters = known.counters.entry(drive.nqn.clone()).or_default();
            counters.smart = observed.smart.get(&drive.nqn).copied().or(counters.smart);
            let errors = check.facts.and_then(|facts| facts.drives.get(&drive.nqn)?.errors);
            counters.errors = errors.or(counters.errors);
        }
        known.counters.retain(|nqn, _| observed.drives.iter().any(|drive| drive.nqn == *nqn));
    }
    if let Some(mounted) = check.facts.and_then(|facts| facts.file_systems.as_ref()) {
        let place = |file_system: &storage::health::FileSystemFacts| {
            (file_system.target.clone(), file_system.device)
        };
        known
            .writable
            .retain(|known| mounted.iter().any(|file_system| place(file_system) == *known));
        known
            .writable
            .extend(mounted.iter().filter(|file_system| !file_system.is_read_only).map(place));
    }
    known
}

#[cfg(test)]
mod tests;

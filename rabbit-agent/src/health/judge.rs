//! Compares the facts of a health check with earlier ones, and decides which conditions hold. Does no I/O; the caller
//! passes the time.

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
    rules::{DrivesSeen, ENTER, LEAVE, Seen, findings, temperature},
};

/// Time between checks while a condition lasts whose end no event announces.
const RECHECK: Duration = Duration::from_secs(60);

/// The conditions of a rabbit, and the state to compare the next check with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    pub conditions: BTreeMap<(Subject, Kind), Condition>,
    /// When the next condition may end; the next check should not be later.
    pub settles: Option<Instant>,
    /// When to check again for conditions whose end no event announces, or that could not be checked when they
    /// were due to end.
    pub recheck: Option<Instant>,
    known: Known,
}

/// State of earlier checks, for comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) counters: BTreeMap<Nqn, Counters>,
    /// Drives that any check since the agent's start has seen.
    pub(super) drives: BTreeMap<Nqn, Drive>,
    /// Namespaces that the last check of the drives did not find.
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
    /// The subject no longer exists.
    Gone,
    /// The subject was not read.
    NotRead,
    Read,
}

impl Judgement {
    /// Adds the drives that earlier checks saw and that are missing now: a drive without namespaces leaves no other
    /// trace. Drives that cannot be read keep their known names. A restart of the agent forgets both.
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

/// Fills in what an unreadable drive does not report from its last known state.
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

/// Returns the judgement after a check. Conditions that the check does not cover stay.
pub fn judge(before: &Judgement, seen: &Seen<'_>, now: Instant) -> Judgement {
    let staying = findings(seen, &before.known, LEAVE);
    let mut conditions = BTreeMap::new();
    for (key, condition) in &before.conditions {
        let stays = match coverage(seen, key) {
            Coverage::Gone => None,
            Coverage::NotRead => Some(condition.clone()),
            Coverage::Read => match staying.get(key) {
                Some(finding) => Some(entered(finding.clone())),
                None => settling(key.1, condition, now),
            },
        };
        conditions.extend(stays.map(|condition| (key.clone(), condition)));
    }
    let entering = findings(seen, &before.known, ENTER);
    conditions.extend(entering.into_iter().map(|(key, finding)| (key, entered(finding))));
    let end_of = |((_, kind), condition): (&(Subject, Kind), &Condition)| ends(*kind, condition);
    let settles = conditions.iter().filter_map(end_of).filter(|end| *end > now).min();
    let lasts = |entry: (&(Subject, Kind), &Condition)| match end_of(entry) {
        None => !entry.0.1.needs_no_check(),
        // This check could not tell whether the condition has ended, and neither could one right after it.
        Some(end) => end <= now,
    };
    let known = learn(&before.known, seen);
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

/// Returns when a condition ends that is no longer found; `None` while it is found.
fn ends(kind: Kind, condition: &Condition) -> Option<Instant> {
    Some(condition.clean_since? + kind.settles_in())
}

fn coverage(seen: &Seen<'_>, (subject, kind): &(Subject, Kind)) -> Coverage {
    match subject {
        Subject::Rabbit => rabbit_coverage(seen, *kind),
        Subject::Drive(nqn) => drive_coverage(seen, nqn, *kind),
        Subject::Compute(slot) => match seen.links.map(|links| links.get(slot)) {
            None => Coverage::NotRead,
            Some(Some(_)) if !seen.computes.contains_key(slot) => Coverage::Gone,
            Some(None) => Coverage::Gone,
            Some(Some(Link::Unread(_))) if *kind != Kind::Unreadable => Coverage::NotRead,
            Some(Some(_)) => Coverage::Read,
        },
        Subject::FileSystem(target) => {
            let listed = seen.facts.and_then(|facts| facts.file_systems.as_ref());
            listed_coverage(
                listed.map(|all| all.iter().any(|file_system| file_system.target == *target)),
            )
        }
        Subject::Group(name) => {
            let listed = seen.facts.and_then(|facts| facts.groups.as_ref());
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

fn rabbit_coverage(seen: &Seen<'_>, kind: Kind) -> Coverage {
    let of_facts = |is_there: fn(&Facts) -> bool| match seen.facts {
        Some(facts) if is_there(facts) => Coverage::Read,
        _ => Coverage::NotRead,
    };
    match (kind, seen.drives) {
        (Kind::Unreadable, _) => of_facts(|_| true),
        (Kind::Memory, _) => of_facts(|facts| facts.memory.is_some()),
        (Kind::Pressure, _) => of_facts(|facts| facts.pressure.is_some()),
        (Kind::Load, _) => of_facts(|facts| facts.load.is_some()),
        (_, DrivesSeen::NotAsked) => Coverage::NotRead,
        (Kind::DrivesUnreadable, _) | (_, DrivesSeen::Whole { .. }) => Coverage::Read,
        (_, DrivesSeen::Failed) => Coverage::NotRead,
    }
}

fn drive_coverage(seen: &Seen<'_>, nqn: &Nqn, kind: Kind) -> Coverage {
    let DrivesSeen::Whole { observed, .. } = seen.drives else { return Coverage::NotRead };
    let Some(drive) = observed.drives.iter().find(|drive| drive.nqn == *nqn) else {
        return Coverage::Gone;
    };
    let facts = seen.facts.and_then(|facts| facts.drives.get(nqn));
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

/// Returns whether the fact was read on which a condition of this kind depends.
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

/// Returns the state to compare the next check with.
fn learn(before: &Known, seen: &Seen<'_>) -> Known {
    let mut known = before.clone();
    if let DrivesSeen::Whole { observed, lost, .. } = seen.drives {
        known.missed = lost.iter().cloned().collect();
        for drive in &observed.drives {
            if drive.fault.is_none() {
                known.drives.insert(drive.nqn.clone(), drive.clone());
            }
            let counters = known.counters.entry(drive.nqn.clone()).or_default();
            counters.smart = observed.smart.get(&drive.nqn).copied().or(counters.smart);
            let errors = seen.facts.and_then(|facts| facts.drives.get(&drive.nqn)?.errors);
            counters.errors = errors.or(counters.errors);
        }
        known.counters.retain(|nqn, _| observed.drives.iter().any(|drive| drive.nqn == *nqn));
    }
    if let Some(mounted) = seen.facts.and_then(|facts| facts.file_systems.as_ref()) {
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

//! From what is seen, and what was known, to what is wrong. Pure: the clock comes in as an argument.

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

/// How often what announces no end is looked at while it lasts.
const RECHECK: Duration = Duration::from_secs(60);

/// What is wrong with a rabbit, and what it takes to judge the next look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    /// What is wrong.
    pub conditions: BTreeMap<(Subject, Kind), Condition>,
    /// When a condition may have settled, which is yet to come; the next look should not be later.
    pub settles: Option<Instant>,
    /// When to look whether something has ended that announces no end, or could not be looked at when it was to end.
    pub recheck: Option<Instant>,
    known: Known,
}

/// What earlier looks saw of things that only count up, or that were well once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) counters: BTreeMap<Nqn, Counters>,
    /// Drives that were there once since the agent started.
    pub(super) drives: BTreeMap<Nqn, Drive>,
    /// Namespaces that the last look at the drives missed.
    pub(super) missed: BTreeSet<String>,
    /// Mounts that took writes.
    pub(super) writable: BTreeSet<(String, DeviceNumber)>,
}

/// What a drive had counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) smart: Option<Smart>,
    pub(super) errors: Option<LinkErrors>,
}

/// Whether a look tells anything of a condition.
enum Presence {
    /// What it was about is no more.
    Gone,
    /// It was not looked at, or could not be.
    Nothing,
    /// It was looked at.
    Seen,
}

impl Judgement {
    /// The same look, and in it the drives that were there before and are not any more: one without a namespace leaves no other
    /// trace. One that cannot be asked is called what it was called when it could. Both are forgotten when the agent starts anew.
    #[must_use]
    pub fn with_missing(&self, mut observed: Observed) -> Observed {
        for drive in observed.drives.iter_mut().filter(|drive| drive.fault.is_some()) {
            if let Some(known) = self.known.drives.get(&drive.nqn) {
                name_as(drive, known);
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

/// What a drive that cannot be asked does not tell is as it was.
fn name_as(drive: &mut Drive, known: &Drive) {
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

/// Judges a look. What it did not see stays as it was.
#[must_use]
pub fn judge(before: &Judgement, seen: &Seen<'_>, now: Instant) -> Judgement {
    let staying = findings(seen, &before.known, LEAVE);
    let mut conditions = BTreeMap::new();
    for (key, condition) in &before.conditions {
        let stays = match presence(seen, key) {
            Presence::Gone => None,
            Presence::Nothing => Some(condition.clone()),
            Presence::Seen => match staying.get(key) {
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
        None => !entry.0.1.needs_no_look(),
        // This look could not tell that it is over, and one at once would not either.
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

/// When what was found gone may be over; `None` while it is there.
fn ends(kind: Kind, condition: &Condition) -> Option<Instant> {
    Some(condition.clean_since? + kind.settles_in())
}

fn presence(seen: &Seen<'_>, (subject, kind): &(Subject, Kind)) -> Presence {
    match subject {
        Subject::Rabbit => of_rabbit(seen, *kind),
        Subject::Drive(nqn) => of_drive(seen, nqn, *kind),
        Subject::Compute(slot) => match seen.links.map(|links| links.get(slot)) {
            None => Presence::Nothing,
            Some(Some(_)) if !seen.computes.contains_key(slot) => Presence::Gone,
            Some(None) => Presence::Gone,
            Some(Some(Link::Unread(_))) if *kind != Kind::Unread => Presence::Nothing,
            Some(Some(_)) => Presence::Seen,
        },
        Subject::FileSystem(target) => {
            let listed = seen.facts.and_then(|facts| facts.file_systems.as_ref());
            among(listed.map(|all| all.iter().any(|file_system| file_system.target == *target)))
        }
        Subject::Group(name) => {
            let listed = seen.facts.and_then(|facts| facts.groups.as_ref());
            among(listed.map(|all| all.iter().any(|group| group.name == *name)))
        }
    }
}

fn among(listed: Option<bool>) -> Presence {
    match listed {
        None => Presence::Nothing,
        Some(false) => Presence::Gone,
        Some(true) => Presence::Seen,
    }
}

fn of_rabbit(seen: &Seen<'_>, kind: Kind) -> Presence {
    let of_facts = |is_there: fn(&Facts) -> bool| match seen.facts {
        Some(facts) if is_there(facts) => Presence::Seen,
        _ => Presence::Nothing,
    };
    match (kind, seen.drives) {
        (Kind::Unread, _) => of_facts(|_| true),
        (Kind::Memory, _) => of_facts(|facts| facts.memory.is_some()),
        (Kind::Pressure, _) => of_facts(|facts| facts.pressure.is_some()),
        (Kind::Load, _) => of_facts(|facts| facts.load.is_some()),
        (_, DrivesSeen::NotAsked) => Presence::Nothing,
        (Kind::NotLooked, _) | (_, DrivesSeen::Whole { .. }) => Presence::Seen,
        (_, DrivesSeen::Failed) => Presence::Nothing,
    }
}

fn of_drive(seen: &Seen<'_>, nqn: &Nqn, kind: Kind) -> Presence {
    let DrivesSeen::Whole { observed, .. } = seen.drives else { return Presence::Nothing };
    let Some(drive) = observed.drives.iter().find(|drive| drive.nqn == *nqn) else {
        return Presence::Gone;
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
    if is_seen { Presence::Seen } else { Presence::Nothing }
}

/// Whether of what the kernel knows of a drive that was read which a condition is about.
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

/// What the next look is compared with.
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

//! Converts the judgement into the words that the coordinator and the NnfNode use. Does no I/O.

use api::nnf_node::{NnfResourceHealth, NnfResourceStatus};
use proto::v1::{Health, health::State};
use storage::{desired::Nqn, observed::DriveWarning};

use super::{
    condition::{Condition, Kind, Severity, Subject},
    judge::Judgement,
    rules::join_some,
};

/// Returns the health of the rabbit as a whole, with all conditions; the worst condition is first.
pub fn health(judgement: &Judgement, total: u64, allocated: u64) -> Health {
    let mut conditions: Vec<_> = judgement.conditions.iter().collect();
    conditions.sort_by_key(|(_, condition)| std::cmp::Reverse(condition.severity));
    let texts = |wanted: fn(&Kind) -> bool| {
        let all = conditions.iter().filter(move |((_, kind), _)| wanted(kind));
        all.map(|(_, condition)| condition.text.clone()).collect::<Vec<_>>()
    };
    let (reported, worsening) = (texts(|_| true), texts(gets_worse));
    let state = match overall(judgement) {
        NnfResourceHealth::Critical => State::Critical,
        NnfResourceHealth::Ok => State::Ok,
        _ => State::Warning,
    };
    Health {
        state: state.into(),
        message: join_some(&reported, "; "),
        capacity_total: total,
        capacity_allocated: allocated,
        worsening,
    }
}

fn gets_worse(kind: &Kind) -> bool {
    matches!(kind, Kind::Worn | Kind::SpareLow | Kind::MediaErrors | Kind::LinkErrors)
}

/// Returns the overall health. A condition that is critical for one drive, compute or file system is only a warning for
/// the rabbit, because the rabbit still serves the others.
pub fn overall(judgement: &Judgement) -> NnfResourceHealth {
    let critical = |((subject, _), condition): (&(Subject, Kind), &Condition)| {
        *subject == Subject::Rabbit && condition.severity == Severity::Critical
    };
    if judgement.conditions.iter().any(critical) {
        NnfResourceHealth::Critical
    } else if judgement.conditions.is_empty() {
        NnfResourceHealth::Ok
    } else {
        NnfResourceHealth::Warning
    }
}

/// Returns the status of a drive in the words of the sites' tools: offline if the drive cannot be reached, disabled if
/// it stops writing, failed if it has any other warning.
pub fn of_drive(judgement: &Judgement, nqn: &Nqn) -> (NnfResourceStatus, NnfResourceHealth) {
    let subject = Subject::Drive(nqn.clone());
    let is = |wanted: fn(&Kind) -> bool| {
        conditions_of(judgement, &subject).any(|(kind, _)| wanted(kind))
    };
    if is(|kind| matches!(kind, Kind::Unusable | Kind::LinkLost)) {
        (NnfResourceStatus::Offline, NnfResourceHealth::Critical)
    } else if is(ends_writing) {
        (NnfResourceStatus::Disabled, NnfResourceHealth::Warning)
    } else if is(|kind| matches!(kind, Kind::Warned(_) | Kind::TooHot)) {
        (NnfResourceStatus::Failed, NnfResourceHealth::Critical)
    } else {
        (NnfResourceStatus::Ready, worst(judgement, &subject))
    }
}

fn ends_writing(kind: &Kind) -> bool {
    match kind {
        Kind::SpareLow => true,
        Kind::Warned(warning) => DriveWarning::ends_writing(warning),
        _ => false,
    }
}

/// Returns the status of the compute in a slot, as far as the state of the compute's link shows it.
pub fn of_compute(judgement: &Judgement, slot: u8) -> (NnfResourceStatus, NnfResourceHealth) {
    let subject = Subject::Compute(slot);
    let lost = conditions_of(judgement, &subject).any(|(kind, _)| *kind == Kind::LinkLost);
    let status = if lost { NnfResourceStatus::Offline } else { NnfResourceStatus::Ready };
    (status, worst(judgement, &subject))
}

/// Returns the health of the rabbit without its drives and computes: memory, load, file systems and volume groups.
pub fn of_rabbit(judgement: &Judgement) -> NnfResourceHealth {
    let mut own = judgement.conditions.keys().filter(|(subject, kind)| match subject {
        Subject::Rabbit => matches!(kind, Kind::Memory | Kind::Pressure | Kind::Load),
        Subject::FileSystem(_) | Subject::Group(_) => true,
        Subject::Drive(_) | Subject::Compute(_) => false,
    });
    own.next().map_or(NnfResourceHealth::Ok, |_| NnfResourceHealth::Warning)
}

fn conditions_of<'a>(
    judgement: &'a Judgement,
    subject: &'a Subject,
) -> impl Iterator<Item = (&'a Kind, &'a Condition)> {
    let all = judgement.conditions.iter().filter(move |((about, _), _)| about == subject);
    all.map(|((_, kind), condition)| (kind, condition))
}

fn worst(judgement: &Judgement, subject: &Subject) -> NnfResourceHealth {
    match conditions_of(judgement, subject).map(|(_, condition)| condition.severity).max() {
        None => NnfResourceHealth::Ok,
        Some(Severity::Warning) => NnfResourceHealth::Warning,
        Some(Severity::Critical) => NnfResourceHealth::Critical,
    }
}

//! Rules for drives.

use storage::{
    health::{DriveFacts, Facts, Link, LinkErrors, Smart, Temperature},
    observed::Drive,
};

use super::{Findings, Thresholds, add_finding, check_link_rate};
use crate::health::{
    condition::{Kind, Severity, Subject},
    judge::{Counters, Known},
};

/// Fewest corrected link errors between two checks that count as a problem; single ones do not.
const MANY_CORRECTED: u64 = 100;

pub(super) fn drive(
    drive: &Drive,
    smart: Option<&Smart>,
    facts: Option<&Facts>,
    known: &Known,
    at: Thresholds,
    found: &mut Findings,
) {
    let subject = Subject::Drive(drive.nqn.clone());
    let mut finding = |kind, severity, text: String| {
        add_finding(found, &subject, kind, severity, &format!("{}: {text}", drive.nqn));
    };
    if let Some(fault) = &drive.fault {
        finding(Kind::Unusable, Severity::Critical, fault.clone());
    }
    for warning in &drive.warnings {
        let severity = if warning.ends_writing() { Severity::Warning } else { Severity::Critical };
        finding(
            Kind::Warned(*warning),
            severity,
            format!("{warning}: see nvme smart-log, and replace the drive if it stays"),
        );
    }
    if drive.wear >= 100 {
        let text = format!("{} % of its rated life are used: plan to replace it", drive.wear);
        finding(Kind::Worn, Severity::Warning, text);
    }
    let before = known.counters.get(&drive.nqn);
    if let Some(smart) = smart {
        check_smart(smart, before, at, &mut finding);
    }
    let facts = facts.and_then(|facts| facts.drives.get(&drive.nqn));
    if let Some(temperature) = temperature(facts, smart) {
        check_temperature(temperature, at, &mut finding);
    }
    if let Some(facts) = facts {
        check_attachment(facts, before, &mut finding);
        if let Some(link) = &facts.link {
            check_link_rate(&subject, &drive.nqn.to_string(), link, found);
        }
    }
}

/// Returns the drive's temperature. The kernel knows it only for drives whose physical function it drives.
pub(in crate::health) fn temperature(
    facts: Option<&DriveFacts>,
    smart: Option<&Smart>,
) -> Option<Temperature> {
    facts.and_then(|facts| facts.temperature).or(smart.and_then(|smart| smart.temperature))
}

fn check_smart(
    smart: &Smart,
    before: Option<&Counters>,
    at: Thresholds,
    finding: &mut impl FnMut(Kind, Severity, String),
) {
    let Smart { spare, spare_threshold: threshold, .. } = *smart;
    if spare < threshold.saturating_add(at.spare) {
        let text =
            format!("{spare} % of its spare blocks are left, threshold {threshold} %: replace it");
        finding(Kind::SpareLow, Severity::Warning, text);
    }
    let Some(before) = before.and_then(|counters| counters.smart) else { return };
    let (was, is) = (before.media_errors, smart.media_errors);
    if is > was {
        let text = format!(
            "{is} media errors, {was} at the previous check: read its data back, and replace it if they grow"
        );
        finding(Kind::MediaErrors, Severity::Warning, text);
    }
    let (was, is) = (before.unsafe_shutdowns, smart.unsafe_shutdowns);
    if is > was {
        let text = format!(
            "it lost power without notice {is} times, {was} at the previous check: check the slot and its power"
        );
        finding(Kind::PowerLost, Severity::Warning, text);
    }
}

/// Checks what the kernel reports about a drive.
fn check_attachment(
    facts: &DriveFacts,
    before: Option<&Counters>,
    finding: &mut impl FnMut(Kind, Severity, String),
) {
    if facts.link == Some(Link::Down) {
        let text = "its PCIe link is down: reseat it, or check the slot".to_owned();
        finding(Kind::LinkLost, Severity::Critical, text);
    }
    if !facts.controller.is_empty() && facts.controller != "live" {
        let text =
            format!("its controller is {}, not live: see the kernel's log", facts.controller);
        finding(Kind::Controller, Severity::Warning, text);
    }
    if let Some(namespaces) = facts.read_only.as_ref().filter(|namespaces| !namespaces.is_empty()) {
        let text = format!(
            "namespaces {namespaces:?} are read-only: see blockdev --getro, and nvme smart-log"
        );
        finding(Kind::ReadOnlyNamespace, Severity::Warning, text);
    }
    if let (Some(is), Some(was)) = (facts.errors, before.and_then(|counters| counters.errors)) {
        check_link_errors(was, is, finding);
    }
}

fn check_temperature(
    temperature: Temperature,
    at: Thresholds,
    finding: &mut impl FnMut(Kind, Severity, String),
) {
    let Temperature { now, warning, critical } = temperature;
    let mut beyond = |threshold: Option<i64>, kind, severity| {
        if let Some(threshold) = threshold.filter(|threshold| now >= threshold - at.degrees) {
            let text =
                format!("it is at {now} °C, threshold {threshold} °C: check fans and air flow");
            finding(kind, severity, text);
        }
    };
    beyond(warning, Kind::Hot, Severity::Warning);
    beyond(critical, Kind::TooHot, Severity::Critical);
}

fn check_link_errors(
    was: LinkErrors,
    is: LinkErrors,
    finding: &mut impl FnMut(Kind, Severity, String),
) {
    let new = |was: u64, is: u64| is.saturating_sub(was);
    let (fatal, nonfatal) = (new(was.fatal, is.fatal), new(was.nonfatal, is.nonfatal));
    let correctable = new(was.correctable, is.correctable);
    if fatal + nonfatal > 0 || correctable >= MANY_CORRECTED {
        let text = format!(
            "its PCIe link had {fatal} fatal, {nonfatal} nonfatal and {correctable} correctable errors since the previous check: reseat it"
        );
        finding(Kind::LinkErrors, Severity::Warning, text);
    }
}

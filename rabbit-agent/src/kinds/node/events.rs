//! Kubernetes Events about drives, computes and volumes that changed since the last status. Does no I/O.
//!
//! The agent compares drives and computes with the NnfNode's status, so a restart of the agent causes no Events.

use controller::events::Note;
use std::collections::BTreeSet;

use api::{
    NnfNodeStatus,
    nnf_node::{NnfDriveStatus, NnfResourceStatus, NnfServerStatus},
};
use storage::{Observed, observed::Drive};

use crate::health::{Judgement, Kind, Subject};

const CHECK_HEALTH: &str = "LookAtHealth";

/// Returns all Events, by comparing the previous status and judgement with the present ones.
pub(super) fn events(
    (reported, known): (&NnfNodeStatus, &Judgement),
    (reporting, judged): (&NnfNodeStatus, &Judgement),
    seen: Option<&Observed>,
) -> Vec<Note> {
    let mut events = computes(&reported.servers, &reporting.servers);
    let looked_at = seen.map_or(&[][..], |seen| &seen.drives);
    events.extend(drives(&reported.drives, &reporting.drives, looked_at, judged));
    events.extend(volumes(known, judged));
    events
}

/// Returns Events about computes that are newly fenced or no longer fenced.
pub(super) fn computes(before: &[NnfServerStatus], after: &[NnfServerStatus]) -> Vec<Note> {
    let is_fenced = |server: &NnfServerStatus| server.status == Some(NnfResourceStatus::Fenced);
    let event = |now: &NnfServerStatus| {
        let was = before.iter().find(|server| server.hostname == now.hostname)?;
        let name = &now.hostname;
        let event = match (is_fenced(was), is_fenced(now)) {
            (false, true) => Note::warning(
                "ComputeFenced",
                "Fence",
                format!("{name} is fenced: this rabbit gives it no access to a GFS2"),
            ),
            (true, false) => {
                Note::normal("ComputeUnfenced", "Fence", format!("{name} is no longer fenced"))
            }
            (true, true) | (false, false) => return None,
        };
        Some(event.of_part(format!("status.servers{{{name}}}")))
    };
    after.iter().filter(|server| !server.hostname.is_empty()).filter_map(event).collect()
}

/// Returns Events about drives that failed or work again; `seen` has the drives. If a drive was pulled before the agent
/// started, the agent knows only its serial number.
fn drives(
    before: &[NnfDriveStatus],
    after: &[NnfDriveStatus],
    seen: &[Drive],
    judged: &Judgement,
) -> Vec<Note> {
    let is_well = |drive: &NnfDriveStatus| drive.status == Some(NnfResourceStatus::Ready);
    let event = |drive: &Drive| {
        let serial = &drive.serial;
        let is_same = |reported: &&NnfDriveStatus| {
            !serial.is_empty()
                && reported.serial_number == *serial
                && (reported.model == drive.model || drive.model.is_empty())
        };
        let (was, now) = (before.iter().find(is_same)?, after.iter().find(is_same)?);
        let event = match (is_well(was), is_well(now)) {
            (true, false) => Note::warning("DriveFailed", CHECK_HEALTH, fault_texts(drive, judged)),
            (false, true) => {
                Note::normal("DriveReady", CHECK_HEALTH, format!("{} can be used again", drive.nqn))
            }
            (true, true) | (false, false) => return None,
        };
        Some(event.of_part(format!("status.drives{{{serial}}}")))
    };
    seen.iter().filter_map(event).collect()
}

fn fault_texts(drive: &Drive, judged: &Judgement) -> String {
    let is_of_drive =
        |(subject, _): &(Subject, Kind)| *subject == Subject::Drive(drive.nqn.clone());
    let faults = judged.conditions.iter().filter(|(key, _)| is_of_drive(key));
    let texts: Vec<_> = faults.map(|(_, condition)| condition.text.as_str()).collect();
    texts.join("; ")
}

/// Returns Events about volume groups that lost a device, or are complete again.
fn volumes(before: &Judgement, after: &Judgement) -> Vec<Note> {
    let (was, is) = (degraded_groups(before), degraded_groups(after));
    let name_of = |name: &String| format!("volume group {name}");
    let degraded_now = is.difference(&was).map(|name| {
        let text =
            |kind| Some(after.conditions.get(&(Subject::Group(name.clone()), kind))?.text.clone());
        let texts: Vec<_> = [Kind::Missing, Kind::Unwell].into_iter().filter_map(text).collect();
        Note::warning("VolumeDegraded", CHECK_HEALTH, texts.join("; ")).of_part(name_of(name))
    });
    let whole = was.difference(&is).map(|name| {
        let text = format!("{} is complete again, or was removed", name_of(name));
        Note::normal("VolumeRepaired", CHECK_HEALTH, text).of_part(name_of(name))
    });
    degraded_now.chain(whole).collect()
}

fn degraded_groups(judged: &Judgement) -> BTreeSet<String> {
    let names = judged.conditions.keys().filter_map(|(subject, kind)| match (subject, kind) {
        (Subject::Group(name), Kind::Missing | Kind::Unwell) => Some(name.clone()),
        _ => None,
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Instant};

    use storage::{
        desired::Spread,
        health::{Facts, GroupFacts},
    };

    use super::*;
    use crate::{
        health::{CheckFacts, DrivesRead, judge},
        kinds::node::report,
        samples,
    };

    fn drive(fault: Option<&str>) -> Drive {
        Drive {
            serial: "S1".into(),
            model: "M".into(),
            firmware: "F".into(),
            capacity: 100,
            fault: fault.map(str::to_owned),
            ..Drive::with_nqn("nqn.x:d0".parse().unwrap())
        }
    }

    fn judged(before: &Judgement, drives: &[Drive], missing: u32, now: Instant) -> Judgement {
        let group = GroupFacts { name: "vg0".into(), missing, ..GroupFacts::default() };
        let facts = Facts { groups: Some(vec![group]), ..Facts::default() };
        let observed = Observed { drives: drives.to_vec(), ..Observed::default() };
        let seen = CheckFacts {
            computes: &BTreeMap::new(),
            links: None,
            facts: Some(&facts),
            drives: DrivesRead::Complete { observed: &observed, unclaimed: &[], lost: &[] },
            block_storage_uids: None,
        };
        judge(before, &seen, now)
    }

    fn drive_statuses(drive: &Drive, judged: &Judgement) -> Vec<NnfDriveStatus> {
        let seen = Observed { drives: vec![drive.clone()], ..Observed::default() };
        let before = NnfNodeStatus::default();
        report::status(&before, Some(&seen), &samples::chassis(), judged, 0, Spread::ONE).drives
    }

    fn reasons(events: &[Note]) -> Vec<&'static str> {
        events.iter().map(|event| event.reason).collect()
    }

    #[test]
    fn a_failed_drive_causes_an_event_and_a_restart_none() {
        let now = Instant::now();
        let (well, broken) = (drive(None), drive(Some("it does not answer")));
        let fine = judged(&Judgement::default(), std::slice::from_ref(&well), 0, now);
        let bad = judged(&fine, std::slice::from_ref(&broken), 0, now);
        let (was, is) = (drive_statuses(&well, &fine), drive_statuses(&broken, &bad));
        let seen = [broken];
        let events = drives(&was, &is, &seen, &bad);
        assert_eq!(reasons(&events), ["DriveFailed"]);
        assert!(events[0].is_warning && events[0].text().contains("nqn.x:d0: it does not answer"));
        assert_eq!(events[0].part.as_deref(), Some("status.drives{S1}"));
        assert_eq!(drives(&is, &is, &seen, &bad), []);
        assert_eq!(reasons(&drives(&is, &was, &seen, &fine)), ["DriveReady"]);
        assert_eq!(drives(&[], &is, &seen, &bad), [], "no status had reported the drive before");

        let [broken] = seen;
        let away = Drive { model: String::new(), ..broken };
        let is = drive_statuses(&away, &bad);
        assert_eq!(reasons(&drives(&was, &is, std::slice::from_ref(&away), &bad)), ["DriveFailed"]);
        let nameless = Drive { serial: String::new(), ..away };
        let (empty, is) = (vec![NnfDriveStatus::default()], drive_statuses(&nameless, &bad));
        assert_eq!(drives(&empty, &is, &[nameless], &bad), [], "an empty slot is no drive");
    }

    #[test]
    fn a_volume_group_causes_events_when_it_degrades_and_recovers() {
        let now = Instant::now();
        let whole = judged(&Judgement::default(), &[drive(None)], 0, now);
        let degraded = judged(&whole, &[drive(None)], 1, now);
        let events = volumes(&whole, &degraded);
        assert_eq!(reasons(&events), ["VolumeDegraded"]);
        assert!(events[0].text().contains("volume group vg0: 1 physical volumes are missing"));
        assert_eq!(volumes(&degraded, &degraded), []);
        assert_eq!(reasons(&volumes(&degraded, &whole)), ["VolumeRepaired"]);
    }

    #[test]
    fn a_compute_causes_events_when_fenced_and_unfenced() {
        let was = report::servers(&samples::chassis(), &Judgement::default());
        let mut is = was.clone();
        report::mark_fenced(&mut is, &["compute-03".parse().unwrap()].into());
        let events = computes(&was, &is);
        assert_eq!(reasons(&events), ["ComputeFenced"]);
        assert_eq!(events[0].part.as_deref(), Some("status.servers{compute-03}"));
        assert_eq!(computes(&is, &is), []);
        assert_eq!(reasons(&computes(&is, &was)), ["ComputeUnfenced"]);
    }
}

//! Kubernetes Events about drives, computes and volumes that changed since the last status. Does no I/O.
//!
//! Drives and computes are compared with the NnfNode's status, so a restart of the agent causes no Events.

use controller::events::Note;
use std::collections::BTreeSet;

use api::{
    NnfNodeStatus,
    nnf_node::{NnfDriveStatus, NnfResourceStatus, NnfServerStatus},
};
use storage::{Observed, observed::Drive};

use crate::health::{Judgement, Kind, Subject};

const LOOK: &str = "LookAtHealth";

/// All Events, from the status and judgement before and those of now.
pub(super) fn events(
    (reported, known): (&NnfNodeStatus, &Judgement),
    (tells, judged): (&NnfNodeStatus, &Judgement),
    seen: Option<&Observed>,
) -> Vec<Note> {
    let mut events = computes(&reported.servers, &tells.servers);
    let looked_at = seen.map_or(&[][..], |seen| &seen.drives);
    events.extend(drives(&reported.drives, &tells.drives, looked_at, judged));
    events.extend(volumes(known, judged));
    events
}

/// Events about computes that are fenced, or no longer are.
pub(super) fn computes(before: &[NnfServerStatus], after: &[NnfServerStatus]) -> Vec<Note> {
    let is_fenced = |server: &NnfServerStatus| server.status == Some(NnfResourceStatus::Fenced);
    let events = |now: &NnfServerStatus| {
        let was = before.iter().find(|server| server.hostname == now.hostname)?;
        let name = &now.hostname;
        let events = match (is_fenced(was), is_fenced(now)) {
            (false, true) => Note::warning(
                "ComputeFenced",
                "Fence",
                format!("{name} is fenced: it is given no GFS2 of this rabbit"),
            ),
            (true, false) => {
                Note::normal("ComputeUnfenced", "Fence", format!("{name} is fenced no more"))
            }
            (true, true) | (false, false) => return None,
        };
        Some(events.of_part(format!("status.servers{{{name}}}")))
    };
    after.iter().filter(|server| !server.hostname.is_empty()).filter_map(events).collect()
}

/// Events about drives that failed or work again, for the drives in `seen`. A drive that was pulled before the agent
/// started is known only by its serial number.
fn drives(
    before: &[NnfDriveStatus],
    after: &[NnfDriveStatus],
    seen: &[Drive],
    judged: &Judgement,
) -> Vec<Note> {
    let is_well = |drive: &NnfDriveStatus| drive.status == Some(NnfResourceStatus::Ready);
    let events = |drive: &Drive| {
        let serial = &drive.serial;
        let of_it = |reported: &&NnfDriveStatus| {
            !serial.is_empty()
                && reported.serial_number == *serial
                && (reported.model == drive.model || drive.model.is_empty())
        };
        let (was, now) = (before.iter().find(of_it)?, after.iter().find(of_it)?);
        let events = match (is_well(was), is_well(now)) {
            (true, false) => Note::warning("DriveFailed", LOOK, why(drive, judged)),
            (false, true) => {
                Note::normal("DriveReady", LOOK, format!("{} can be used again", drive.nqn))
            }
            (true, true) | (false, false) => return None,
        };
        Some(events.of_part(format!("status.drives{{{serial}}}")))
    };
    seen.iter().filter_map(events).collect()
}

fn why(drive: &Drive, judged: &Judgement) -> String {
    let of_it = |(subject, _): &(Subject, Kind)| *subject == Subject::Drive(drive.nqn.clone());
    let wrong = judged.conditions.iter().filter(|(key, _)| of_it(key));
    let texts: Vec<_> = wrong.map(|(_, condition)| condition.text.as_str()).collect();
    texts.join("; ")
}

/// Events about volume groups that lost a device, or are complete again.
fn volumes(before: &Judgement, after: &Judgement) -> Vec<Note> {
    let (was, is) = (degraded(before), degraded(after));
    let name_of = |name: &String| format!("volume group {name}");
    let lost = is.difference(&was).map(|name| {
        let text =
            |kind| Some(after.conditions.get(&(Subject::Group(name.clone()), kind))?.text.clone());
        let texts: Vec<_> = [Kind::Missing, Kind::Unwell].into_iter().filter_map(text).collect();
        Note::warning("VolumeDegraded", LOOK, texts.join("; ")).of_part(name_of(name))
    });
    let whole = was.difference(&is).map(|name| {
        let text = format!("{} is whole again, or is gone", name_of(name));
        Note::normal("VolumeRepaired", LOOK, text).of_part(name_of(name))
    });
    lost.chain(whole).collect()
}

fn degraded(judged: &Judgement) -> BTreeSet<String> {
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
        health::{DrivesSeen, Seen, judge},
        node::report,
        samples,
    };

    fn drive(fault: Option<&str>) -> Drive {
        Drive {
            nqn: "nqn.x:d0".parse().unwrap(),
            serial: "S1".into(),
            model: "M".into(),
            firmware: "F".into(),
            slot: 0,
            label: String::new(),
            capacity: 100,
            allocated: 0,
            max_namespaces: None,
            wear: 0,
            warnings: Vec::new(),
            fault: fault.map(str::to_owned),
        }
    }

    fn judged(before: &Judgement, drives: &[Drive], missing: u32, now: Instant) -> Judgement {
        let group = GroupFacts { name: "vg0".into(), missing, ..GroupFacts::default() };
        let facts = Facts { groups: Some(vec![group]), ..Facts::default() };
        let observed = Observed { drives: drives.to_vec(), ..Observed::default() };
        let seen = Seen {
            computes: &BTreeMap::new(),
            links: None,
            facts: Some(&facts),
            drives: DrivesSeen::Whole { observed: &observed, unclaimed: &[], lost: &[] },
            claimants: None,
        };
        judge(before, &seen, now)
    }

    fn shown(drive: &Drive, judged: &Judgement) -> Vec<NnfDriveStatus> {
        let seen = Observed { drives: vec![drive.clone()], ..Observed::default() };
        let before = NnfNodeStatus::default();
        report::status(&before, Some(&seen), &samples::chassis(), judged, 0, Spread::ONE).drives
    }

    fn reasons(events: &[Note]) -> Vec<&'static str> {
        events.iter().map(|event| event.reason).collect()
    }

    #[test]
    fn a_drive_that_fails_is_told_with_what_is_wrong_and_a_restart_tells_nothing() {
        let now = Instant::now();
        let (well, broken) = (drive(None), drive(Some("it does not answer")));
        let fine = judged(&Judgement::default(), std::slice::from_ref(&well), 0, now);
        let bad = judged(&fine, std::slice::from_ref(&broken), 0, now);
        let (was, is) = (shown(&well, &fine), shown(&broken, &bad));
        let seen = [broken];
        let events = drives(&was, &is, &seen, &bad);
        assert_eq!(reasons(&events), ["DriveFailed"]);
        assert!(events[0].is_warning && events[0].text().contains("nqn.x:d0: it does not answer"));
        assert_eq!(events[0].part.as_deref(), Some("status.drives{S1}"));
        assert_eq!(drives(&is, &is, &seen, &bad), []);
        assert_eq!(reasons(&drives(&is, &was, &seen, &fine)), ["DriveReady"]);
        assert_eq!(drives(&[], &is, &seen, &bad), [], "nothing was told of it before");

        let [broken] = seen;
        let away = Drive { model: String::new(), ..broken };
        let is = shown(&away, &bad);
        assert_eq!(reasons(&drives(&was, &is, std::slice::from_ref(&away), &bad)), ["DriveFailed"]);
        let nameless = Drive { serial: String::new(), ..away };
        let (empty, is) = (vec![NnfDriveStatus::default()], shown(&nameless, &bad));
        assert_eq!(drives(&empty, &is, &[nameless], &bad), [], "an empty slot is no drive");
    }

    #[test]
    fn a_volume_is_told_when_it_loses_something_and_when_it_has_it_back() {
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
    fn a_compute_is_told_when_it_is_fenced_and_when_it_is_no_more() {
        let was = report::servers(&samples::chassis(), &Judgement::default());
        let mut is = was.clone();
        crate::fence::servers::mark_fenced(&mut is, &["compute-03".parse().unwrap()].into());
        let events = computes(&was, &is);
        assert_eq!(reasons(&events), ["ComputeFenced"]);
        assert_eq!(events[0].part.as_deref(), Some("status.servers{compute-03}"));
        assert_eq!(computes(&is, &is), []);
        assert_eq!(reasons(&computes(&is, &was)), ["ComputeUnfenced"]);
    }
}

//! Rules for file systems and volume groups.

use std::collections::BTreeSet;

use storage::{
    desired::ObjectUid,
    health::{Answer, Facts, GroupFacts},
};

use super::{Findings, add_finding, join_some};
use crate::health::{
    condition::{Kind, Severity, Subject},
    judge::Known,
};

pub(super) fn file_systems(facts: &Facts, known: &Known, found: &mut Findings) {
    for file_system in facts.file_systems.iter().flatten() {
        let subject = Subject::FileSystem(file_system.target.clone());
        let (name, kind) = (&file_system.target, &file_system.kind);
        match &file_system.answer {
            Answer::Well => {}
            Answer::ShutDown(why) => {
                let text = format!(
                    "{name}: {kind} was shut down after an error ({why}): see the kernel's log, unmount it and check it before it is used again"
                );
                add_finding(found, &subject, Kind::ShutDown, Severity::Critical, &text);
            }
            Answer::Silent(why) => {
                let text = format!("{name}: {kind} does not answer: {why}");
                add_finding(found, &subject, Kind::Silent, Severity::Warning, &text);
            }
        }
        // A file system that was mounted read-only, and was never writable, is in its desired state.
        let was_writable =
            known.writable.contains(&(file_system.target.clone(), file_system.device));
        if file_system.is_read_only && (!file_system.is_mounted_read_only || was_writable) {
            let text = format!(
                "{name}: {kind} went read-only: see the kernel's log, unmount it and check it before it is used again"
            );
            add_finding(found, &subject, Kind::WentReadOnly, Severity::Critical, &text);
        }
    }
}

pub(super) fn groups(facts: &Facts, found: &mut Findings) {
    for group in facts.groups.iter().flatten() {
        let subject = Subject::Group(group.name.clone());
        if group.missing > 0 {
            let lost = match join_some(&group.lost, "; ") {
                lost if lost.is_empty() => lost,
                lost => format!(" ({lost})"),
            };
            let text = format!(
                "volume group {}: {} physical volumes are missing{lost}: find the missing drive, and put it back or replace it",
                group.name, group.missing
            );
            add_finding(found, &subject, Kind::Missing, Severity::Warning, &text);
        }
        if !group.unwell.is_empty() {
            let volumes: Vec<_> =
                group.unwell.iter().map(|(volume, state)| format!("{volume} is {state}")).collect();
            let text =
                format!("volume group {}: {}: see lvs -a", group.name, join_some(&volumes, ", "));
            add_finding(found, &subject, Kind::Unwell, Severity::Warning, &text);
        }
    }
}

/// Adds a finding for volume groups that Warren made for an object that no longer exists. The agent does not remove
/// them, because they hold data: an administrator does.
pub(super) fn unclaimed(
    facts: &Facts,
    block_storage_uids: &BTreeSet<ObjectUid>,
    found: &mut Findings,
) {
    for group in facts.groups.iter().flatten() {
        let Some(allocation) = group.allocation else { continue };
        if block_storage_uids.contains(&allocation.owner) {
            continue;
        }
        let text = format!(
            "volume group {} belongs to no NnfNodeBlockStorage and is never deleted by the agent; if its data is not needed, run {}, and then delete its namespaces",
            group.name,
            removal_command(group)
        );
        let subject = Subject::Group(group.name.clone());
        add_finding(found, &subject, Kind::Unclaimed, Severity::Warning, &text);
    }
}

/// Returns the command that removes a volume group. The command names the group's devices, because another disk of the
/// node may have a group of the same name.
fn removal_command(group: &GroupFacts) -> String {
    let devices: Vec<_> = group.devices.iter().map(|device| device.display().to_string()).collect();
    let on = format!("--devices {} {}", devices.join(","), group.name);
    let join =
        if group.is_shared { format!("vgchange --lock-start {on} && ") } else { String::new() };
    format!("{join}vgremove --force --yes {on}")
}

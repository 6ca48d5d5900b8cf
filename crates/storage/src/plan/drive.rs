//! Plans the work that makes drives ready for their hosts: their virtual functions, and the records in their ledgers.

use crate::{
    Desired, Step,
    desired::MountSource,
    observed::{Drive, Functions, Observed},
    step::DriveAction,
};

/// Plans the steps that must come before the plan of any unit: the work on drives that are not ready, and for a mount a
/// rescan for the namespaces that this node does not see. Such a step may fail without failing the unit: the unit is
/// then planned without the drive or the namespace. A withdrawal needs no preparation: the fencing of a host must not
/// wait until a drive is ready, and must not take a drive that stays unready for one without access.
pub fn prepare(desired: &Desired, observed: &Observed) -> Vec<Step> {
    if let Desired::Withdrawn { .. } = desired {
        return Vec::new();
    }
    let on_drives =
        observed.drives.iter().filter(|drive| drive.fault.is_none()).flat_map(|drive| {
            let step = |action| Step::PrepareDrive { drive: drive.nqn.clone(), action };
            actions(drive).into_iter().map(step)
        });
    on_drives.chain(rescan(desired, observed)).collect()
}

fn actions(drive: &Drive) -> Vec<DriveAction> {
    let unready = &drive.unready;
    let records = [
        unready.has_open_intents.then_some(DriveAction::SettleIntents),
        unready.is_slot_unrecorded.then_some(DriveAction::RecordSlot),
    ];
    let functions = unready.functions.iter().flat_map(bring_up);
    functions.chain(records.into_iter().flatten()).collect()
}

/// Plans how to bring up virtual functions; empty when every function that a host needs is online and bound.
pub fn bring_up(functions: &Functions) -> Vec<DriveAction> {
    let Functions { wanted, enabled, hoarded, preset, ref offline, unbound } = *functions;
    if wanted == 0 {
        return Vec::new();
    }
    let is_up = offline.is_empty() && enabled >= wanted;
    // A reset of the primary controller also stops the secondary controllers: do not reset it while one may be in use.
    let is_first = !is_up && enabled == 0;
    let steps = [
        (is_first && hoarded && !preset).then_some(DriveAction::FreeResources),
        is_first.then_some(DriveAction::EnableFunctions(wanted)),
        (!offline.is_empty()).then(|| DriveAction::StartFunctions(offline.clone())),
        (unbound > 0).then_some(DriveAction::BindFunctions(unbound)),
    ];
    steps.into_iter().flatten().collect()
}

/// Plans one rescan for all namespaces of a mount that this node does not see. Usually the kernel finds a new namespace
/// when the drive announces it; if the announcement was lost, only a rescan finds it.
fn rescan(desired: &Desired, observed: &Observed) -> Option<Step> {
    let Desired::Mounted(mount) = desired else { return None };
    let MountSource::Volume { .. } = mount.source else { return None };
    let missing = &observed.volume.as_ref()?.missing;
    (!missing.is_empty()).then(|| Step::Rescan { namespaces: missing.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{desired::AllocationId, observed::Attached};
    use DriveAction::{BindFunctions, EnableFunctions, FreeResources, StartFunctions};

    fn down(count: u16) -> Functions {
        let offline = (1..=count).collect();
        Functions { wanted: count, offline, unbound: count, ..Functions::default() }
    }

    #[test]
    fn bring_up_does_only_what_is_missing() {
        let up = Functions { wanted: 2, enabled: 2, hoarded: true, ..Functions::default() };
        let start = |numbers: &[u16]| StartFunctions(numbers.to_vec());
        for (state, functions, steps) in [
            ("all functions are online", up.clone(), vec![]),
            (
                "after a power cycle",
                Functions { hoarded: true, ..down(2) },
                vec![FreeResources, EnableFunctions(2), start(&[1, 2]), BindFunctions(2)],
            ),
            (
                "after a warm reboot, when no function is enabled",
                down(2),
                vec![EnableFunctions(2), start(&[1, 2]), BindFunctions(2)],
            ),
            (
                "one function is offline: the others may be in use, so there is no reset",
                Functions { offline: vec![2], ..up.clone() },
                vec![start(&[2])],
            ),
            (
                "resources from the factory are kept",
                Functions { hoarded: true, preset: true, ..down(2) },
                vec![EnableFunctions(2), start(&[1, 2]), BindFunctions(2)],
            ),
            ("a function lost its binding", Functions { unbound: 1, ..up }, vec![BindFunctions(1)]),
            (
                "the drive has no virtual functions",
                Functions { hoarded: true, unbound: 1, ..Functions::default() },
                vec![],
            ),
        ] {
            assert_eq!(bring_up(&functions), steps, "{state}");
        }
    }

    #[test]
    fn neither_a_faulty_drive_nor_a_withdrawal_gets_preparation() {
        let nqn = "nqn.2019-08.org.qemu:drive0".parse().unwrap();
        let mut drive = Drive::with_nqn(nqn);
        drive.unready.functions = Some(down(2));
        drive.unready.has_open_intents = true;
        let mut observed = Observed { drives: vec![drive], ..Observed::default() };
        let kinds: Vec<_> =
            prepare(&Desired::Inventory, &observed).iter().map(Step::kind).collect();
        assert_eq!(
            kinds,
            ["enable-functions", "start-functions", "bind-functions", "settle-intents"]
        );
        let owner = "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap();
        let withdrawal = Desired::Withdrawn {
            allocation: AllocationId { owner, index: 0 },
            host: Attached { endpoint: None, node: "compute-1".parse().unwrap() },
        };
        assert_eq!(prepare(&withdrawal, &observed), [], "a fence does not wait for drives");
        observed.drives[0].fault = Some("it does not answer".to_owned());
        assert_eq!(prepare(&Desired::Inventory, &observed), []);
    }
}

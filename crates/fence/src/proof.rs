//! Decides which namespaces a fence must detach, and why the fence is not proved. Does no I/O.

use std::collections::BTreeSet;

use storage::{
    Desired, Observed,
    observed::{Drive, Namespace},
};

use super::fenced_namespaces::{FencedNamespaces, Hosts};

/// Returns units that detach from the node every namespace that is, or may be, of a GFS2.
pub(super) fn to_detach(
    observed: &Observed,
    fenced: &FencedNamespaces,
    hosts: &Hosts,
) -> Vec<Desired> {
    let reached = observed
        .namespaces
        .iter()
        .filter_map(|namespace| Some((fenced.allocation_to_detach(&namespace.owner)?, namespace)));
    let pairs: BTreeSet<_> = reached
        .flat_map(|(id, namespace)| {
            namespace
                .access
                .iter()
                .filter(|host| hosts.is_target(host))
                .map(move |host| (id, host.clone()))
        })
        .collect();
    let withdraw = |(allocation, host)| Desired::Withdrawn { allocation, host };
    pairs.into_iter().map(withdraw).collect()
}

/// Returns the reasons why the node may still reach a GFS2; empty if the fence is proved. Namespaces on drives that are
/// gone for good do not count: no host reaches such a drive, and it will never be read again.
pub(super) fn unproved(
    observed: &Observed,
    fenced: &FencedNamespaces,
    hosts: &Hosts,
) -> Vec<String> {
    let mut reasons = fenced.unreadable.clone();
    let namespaces = observed
        .namespaces
        .iter()
        .filter(|namespace| !fenced.belongs_to_other_storage(&namespace.owner));
    let namespaces = namespaces.filter(|namespace| !observed.is_replaced(&namespace.id.subsystem));
    reasons.extend(namespaces.flat_map(|namespace| unproved_of(namespace, observed, hosts)));
    reasons.extend(observed.unreadable.iter().map(|nqn| {
        let fault = drive(observed, &nqn.to_string()).and_then(|drive| drive.fault.as_deref());
        format!("the namespaces on drive {nqn} are unknown: {}", fault.unwrap_or_default())
    }));
    let missing = fenced.devices.iter().filter(|(nqn, _)| !is_usable(drive(observed, nqn)));
    let missing = missing
        .filter(|(nqn, _)| !observed.replaced.iter().any(|replaced| replaced.to_string() == *nqn));
    reasons.extend(missing.map(|(nqn, nsid)| {
        format!("namespace {nsid} of drive {nqn} has a GFS2, and the drive cannot report which hosts reach it")
    }));
    reasons.sort();
    reasons.dedup();
    reasons
}

fn unproved_of(namespace: &Namespace, observed: &Observed, hosts: &Hosts) -> Vec<String> {
    let id = &namespace.id;
    let mut reasons = Vec::new();
    let drive = drive(observed, &id.subsystem.to_string());
    if let Some(fault) = drive.and_then(|drive| drive.fault.as_deref()) {
        reasons.push(format!("the drive cannot report which hosts reach namespace {id}: {fault}"));
    }
    for host in namespace.access.iter().filter(|host| hosts.may_be_target(host)) {
        reasons.push(if hosts.is_target(host) {
            format!("it still reaches namespace {id}")
        } else {
            format!(
                "namespace {id} is reached by {host}, which may be {}: add it to computesAccess of SystemConfiguration default/default, or detach it",
                hosts.target
            )
        });
    }
    reasons
}

fn drive<'a>(observed: &'a Observed, nqn: &str) -> Option<&'a Drive> {
    observed.drives.iter().find(|drive| drive.nqn.to_string() == nqn)
}

fn is_usable(drive: Option<&Drive>) -> bool {
    drive.is_some_and(|drive| drive.fault.is_none())
}

#[cfg(test)]
mod tests {
    use kube::core::DeserializeGuard;
    use serde_json::json;
    use storage::{
        desired::{AllocationId, Endpoint, NamespaceId},
        observed::{Attached, NamespaceOwner},
    };

    use super::*;
    use crate::samples::{self, GFS2_UID, XFS_UID};

    const DRIVE: &str = "nqn.2026-01.io.warren:d0";
    const OTHER: &str = "nqn.2026-01.io.warren:d1";
    const LOST_UID: &str = "2a2a1017-e32b-40f1-940a-81c7b709810f";

    fn drive_called(nqn: &str, fault: Option<&str>) -> Drive {
        Drive {
            capacity: 1 << 30,
            fault: fault.map(str::to_owned),
            ..Drive::with_nqn(nqn.parse().unwrap())
        }
    }

    /// A host in the form `name@endpoint`, e.g. `compute-01@1`.
    fn host(text: &str) -> Attached {
        let (node, number) = text.split_once('@').unwrap();
        let number: u8 = number.parse().unwrap();
        let endpoint = number.checked_sub(1).map_or(Endpoint::Rabbit, Endpoint::Compute);
        Attached { endpoint: Some(endpoint), node: node.parse().unwrap() }
    }

    fn namespace(nqn: &str, nsid: u32, owner: &str, access: &[&str]) -> Namespace {
        let id = owner.parse().map(|owner| AllocationId { owner, index: 0 });
        Namespace {
            id: NamespaceId { subsystem: nqn.parse().unwrap(), nsid },
            owner: id.map_or_else(|_| NamespaceOwner::Foreign(owner.into()), NamespaceOwner::Ours),
            size: 4096,
            members: 1,
            needs_erasure: true,
            needs_zeroing: false,
            access: access.iter().map(|node| host(node)).collect(),
            device: None,
        }
    }

    fn observed(namespaces: Vec<Namespace>) -> Observed {
        let drives = vec![drive_called(DRIVE, None), drive_called(OTHER, None)];
        Observed { drives, namespaces, ..Observed::default() }
    }

    /// Returns the namespaces of two objects: a GFS2 whose status names namespace 1 of the first drive, and an XFS.
    fn fenced() -> FencedNamespaces {
        let mut gfs2 = samples::block_storage(GFS2_UID, "gfs2");
        let devices = json!([{"NQN": DRIVE, "namespaceId": "1"}]);
        let status = json!({"ready": true, "allocations": [{"devices": devices}]});
        gfs2.status = Some(serde_json::from_value(status).unwrap());
        let objects = [gfs2, samples::block_storage(XFS_UID, "xfs")];
        let fenced = FencedNamespaces::new(&objects.map(|object| DeserializeGuard(Ok(object))));
        assert!(fenced.unreadable.is_empty() && fenced.devices.len() == 1);
        fenced
    }

    fn hosts() -> Hosts {
        Hosts::new(&"compute-03".parse().unwrap(), &samples::chassis())
    }

    fn reasons(observed: &Observed) -> String {
        unproved(observed, &fenced(), &hosts()).join("; ")
    }

    fn units_for(observed: &Observed) -> Vec<String> {
        let units = to_detach(observed, &fenced(), &hosts());
        let reported = |unit: &Desired| match unit {
            Desired::Withdrawn { allocation, host } => format!("{}/{host}", allocation.owner),
            other => panic!("{other:?}"),
        };
        units.iter().map(reported).collect()
    }

    #[test]
    fn namespaces_of_a_gfs2_and_namespaces_without_object_are_detached() {
        let observed = observed(vec![
            namespace(DRIVE, 1, GFS2_UID, &["rabbit-1@0", "compute-01@1", "compute-03@7"]),
            namespace(OTHER, 1, GFS2_UID, &["compute-03@7"]),
            namespace(DRIVE, 2, XFS_UID, &["compute-03@7"]),
            namespace(DRIVE, 3, LOST_UID, &["endpoint-7@7"]),
            namespace(DRIVE, 4, "somebody's", &["compute-03@7"]),
            namespace(DRIVE, 5, LOST_UID, &["compute-01@1"]),
        ]);
        let expected = [
            format!("{LOST_UID}/endpoint-7 (endpoint 7)"),
            format!("{GFS2_UID}/compute-03 (endpoint 7)"),
        ];
        assert_eq!(units_for(&observed), expected);
        let reasons = reasons(&observed);
        assert_eq!(reasons.matches("still reaches").count(), 4, "{reasons}");
        assert!(!reasons.contains(&format!("2 of {DRIVE}")), "the XFS stays attached: {reasons}");
    }

    #[test]
    fn a_fence_is_proved_if_every_drive_shows_no_access_to_a_gfs2() {
        let observed = observed(vec![
            namespace(DRIVE, 1, GFS2_UID, &["rabbit-1@0", "compute-01@1", "endpoint-2@2"]),
            namespace(DRIVE, 2, XFS_UID, &["compute-03@7", "compute-77@4"]),
            namespace(DRIVE, 4, "somebody's", &["rabbit-1@0"]),
        ]);
        assert_eq!(reasons(&observed), "");
        assert!(units_for(&observed).is_empty());
    }

    #[test]
    fn a_fence_detaches_hosts_that_match_the_node_by_slot_or_by_name() {
        let observed = observed(vec![
            namespace(DRIVE, 1, GFS2_UID, &["compute-02@7", "compute-01@1"]),
            namespace(OTHER, 1, GFS2_UID, &["compute-03@2"]),
        ]);
        let expected = ["compute-03 (endpoint 2)", "compute-02 (endpoint 7)"];
        assert_eq!(units_for(&observed), expected.map(|expected| format!("{GFS2_UID}/{expected}")));
        assert_eq!(
            reasons(&observed).matches("still reaches").count(),
            2,
            "{}",
            reasons(&observed)
        );
    }

    #[test]
    fn unreadable_drives_keep_a_fence_unproved() {
        let gone = observed(Vec::new());
        assert_eq!(reasons(&gone), "", "a healthy drive shows that the namespace is gone");

        let mut absent = observed(Vec::new());
        absent.drives.remove(0);
        assert!(reasons(&absent).contains("namespace 1 of drive"), "its drive is not there at all");

        let mut faulty = observed(vec![namespace(DRIVE, 1, GFS2_UID, &[])]);
        faulty.drives[0] = drive_called(DRIVE, Some("it does not answer"));
        assert!(reasons(&faulty).contains("it does not answer"), "{}", reasons(&faulty));

        let mut faulty = observed(vec![namespace(OTHER, 7, LOST_UID, &[])]);
        faulty.drives[1] = drive_called(OTHER, Some("it does not answer"));
        assert!(reasons(&faulty).contains("it does not answer"), "its owner is unknown");

        let mut faulty = observed(vec![namespace(OTHER, 7, XFS_UID, &[])]);
        faulty.drives[1] = drive_called(OTHER, Some("it does not answer"));
        assert_eq!(reasons(&faulty), "", "the drive has only an XFS");

        let stranger = observed(vec![namespace(DRIVE, 1, GFS2_UID, &["compute-77@4"])]);
        assert!(reasons(&stranger).contains("which may be compute-03"), "{}", reasons(&stranger));
        let foreign = observed(vec![namespace(DRIVE, 9, "somebody's", &["endpoint-7@7"])]);
        assert!(
            reasons(&foreign).contains("still reaches"),
            "a foreign namespace may be of a GFS2 whose record was lost"
        );
    }

    #[test]
    fn an_absent_drive_leaves_a_fence_unproved_unless_it_was_replaced() {
        let lost = [GFS2_UID, LOST_UID].map(|owner| namespace(DRIVE, 1, owner, &[]));
        let mut observed = observed(lost.to_vec());
        observed.drives[0] = drive_called(DRIVE, Some("another is in its slot"));
        assert_eq!(unproved(&observed, &fenced(), &hosts()).len(), 2, "{}", reasons(&observed));
        observed.replaced.insert(DRIVE.parse().unwrap());
        assert_eq!(reasons(&observed), "");
        observed.namespaces.push(namespace(OTHER, 1, LOST_UID, &["compute-03@7"]));
        assert!(
            reasons(&observed).contains("still reaches"),
            "a drive that shows access still counts: {}",
            reasons(&observed)
        );
    }

    #[test]
    fn a_drive_with_an_unreadable_ledger_leaves_a_fence_unproved() {
        let mut observed = observed(Vec::new());
        observed.drives[1] = drive_called(OTHER, Some("its ledger cannot be read"));
        assert_eq!(reasons(&observed), "");
        observed.unreadable.insert(OTHER.parse().unwrap());
        let expected =
            format!("the namespaces on drive {OTHER} are unknown: its ledger cannot be read");
        assert_eq!(reasons(&observed), expected);
    }

    #[test]
    fn an_unreadable_object_with_a_gfs2_leaves_a_fence_unproved() {
        let read = |set: &str| {
            let object = json!({
                "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfNodeBlockStorage",
                "metadata": {"name": "x", "uid": XFS_UID, "labels": {"nnf.cray.hpe.com/allocationset": set}},
                "spec": {"allocations": "many"}
            });
            FencedNamespaces::new(&[serde_json::from_value(object).unwrap()]).unreadable.len()
        };
        assert_eq!((read("gfs2"), read("xfs")), (1, 0));
    }
}

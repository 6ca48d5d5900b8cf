//! Decides what a fence must detach, and what keeps it from being proved. Does no I/O.

use std::collections::BTreeSet;

use storage::{
    Desired, Observed,
    observed::{Drive, Namespace},
};

use super::claims::{Claims, Hosts};

/// Returns units that detach from the node every namespace that is, or may be, of a GFS2.
pub(super) fn to_detach(seen: &Observed, claims: &Claims, hosts: &Hosts) -> Vec<Desired> {
    let reached = seen
        .namespaces
        .iter()
        .filter_map(|namespace| Some((claims.concerned(&namespace.owner)?, namespace)));
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

/// Returns why it is not proved that the node reaches no GFS2; empty if it is proved. Namespaces on drives that are
/// gone for good do not count: no host reaches them, and no host will ever read those drives again.
pub(super) fn unproved(seen: &Observed, claims: &Claims, hosts: &Hosts) -> Vec<String> {
    let mut reasons = claims.unreadable.clone();
    let namespaces =
        seen.namespaces.iter().filter(|namespace| !claims.is_of_others(&namespace.owner));
    let namespaces = namespaces.filter(|namespace| !seen.is_replaced(&namespace.id.subsystem));
    reasons.extend(namespaces.flat_map(|namespace| unproved_of(namespace, seen, hosts)));
    reasons.extend(seen.unreadable.iter().map(|nqn| {
        let fault = drive(seen, &nqn.to_string()).and_then(|drive| drive.fault.as_deref());
        format!("the namespaces on drive {nqn} are unknown: {}", fault.unwrap_or_default())
    }));
    let missing = claims.devices.iter().filter(|(nqn, _)| !is_usable(drive(seen, nqn)));
    let missing = missing
        .filter(|(nqn, _)| !seen.replaced.iter().any(|replaced| replaced.to_string() == *nqn));
    reasons.extend(missing.map(|(nqn, nsid)| {
        format!("namespace {nsid} of drive {nqn} has a GFS2, and the drive cannot report which hosts reach it")
    }));
    reasons.sort();
    reasons.dedup();
    reasons
}

fn unproved_of(namespace: &Namespace, seen: &Observed, hosts: &Hosts) -> Vec<String> {
    let id = &namespace.id;
    let mut reasons = Vec::new();
    let drive = drive(seen, &id.subsystem.to_string());
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

fn drive<'a>(seen: &'a Observed, nqn: &str) -> Option<&'a Drive> {
    seen.drives.iter().find(|drive| drive.nqn.to_string() == nqn)
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
    use crate::samples;

    const DRIVE: &str = "nqn.2026-01.io.warren:d0";
    const OTHER: &str = "nqn.2026-01.io.warren:d1";
    const XFS_UID: &str = "1a2a1017-e32b-40f1-940a-81c7b709810f";
    const LOST_UID: &str = "2a2a1017-e32b-40f1-940a-81c7b709810f";

    fn drive_called(nqn: &str, fault: Option<&str>) -> Drive {
        Drive {
            nqn: nqn.parse().unwrap(),
            serial: String::new(),
            model: String::new(),
            firmware: String::new(),
            slot: 0,
            label: String::new(),
            capacity: 1 << 30,
            allocated: 0,
            max_namespaces: None,
            wear: 0,
            warnings: Vec::new(),
            fault: fault.map(str::to_owned),
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
            access: access.iter().map(|node| host(node)).collect(),
            device: None,
        }
    }

    fn seen(namespaces: Vec<Namespace>) -> Observed {
        let drives = vec![drive_called(DRIVE, None), drive_called(OTHER, None)];
        Observed { drives, namespaces, ..Observed::default() }
    }

    /// Returns a GFS2 whose status names namespace 1 of the first drive, and an XFS.
    fn claims() -> Claims {
        let mut gfs2 = serde_json::to_value(samples::block_storage_ready(1)).unwrap();
        gfs2["metadata"]["labels"]["nnf.cray.hpe.com/allocationset"] = json!("gfs2");
        let mut xfs =
            serde_json::to_value(samples::block_storage(&[(1, &["compute-03"])])).unwrap();
        xfs["metadata"]["uid"] = json!(XFS_UID);
        let objects = [gfs2, xfs].map(|object| serde_json::from_value(object).unwrap());
        let claims = Claims::new(&objects.map(|object| DeserializeGuard(Ok(object))));
        assert!(claims.unreadable.is_empty() && claims.devices.len() == 1);
        claims
    }

    fn hosts() -> Hosts {
        Hosts::new(&"compute-03".parse().unwrap(), &samples::chassis())
    }

    fn reasons(seen: &Observed) -> String {
        unproved(seen, &claims(), &hosts()).join("; ")
    }

    fn units_for(seen: &Observed) -> Vec<String> {
        let units = to_detach(seen, &claims(), &hosts());
        let reported = |unit: &Desired| match unit {
            Desired::Withdrawn { allocation, host } => format!("{}/{host}", allocation.owner),
            other => panic!("{other:?}"),
        };
        units.iter().map(reported).collect()
    }

    #[test]
    fn namespaces_of_a_gfs2_and_unclaimed_ones_are_detached() {
        let seen = seen(vec![
            namespace(
                DRIVE,
                1,
                samples::BLOCK_UID,
                &["rabbit-1@0", "compute-01@1", "compute-03@7"],
            ),
            namespace(OTHER, 1, samples::BLOCK_UID, &["compute-03@7"]),
            namespace(DRIVE, 2, XFS_UID, &["compute-03@7"]),
            namespace(DRIVE, 3, LOST_UID, &["endpoint-7@7"]),
            namespace(DRIVE, 4, "somebody's", &["compute-03@7"]),
            namespace(DRIVE, 5, LOST_UID, &["compute-01@1"]),
        ]);
        let expected = [
            format!("{LOST_UID}/endpoint-7 (endpoint 7)"),
            format!("{}/compute-03 (endpoint 7)", samples::BLOCK_UID),
        ];
        assert_eq!(units_for(&seen), expected);
        let reasons = reasons(&seen);
        assert_eq!(reasons.matches("still reaches").count(), 4, "{reasons}");
        assert!(!reasons.contains(&format!("2 of {DRIVE}")), "the XFS is none of it: {reasons}");
    }

    #[test]
    fn a_fence_is_proved_if_every_drive_shows_no_access_to_a_gfs2() {
        let seen = seen(vec![
            namespace(
                DRIVE,
                1,
                samples::BLOCK_UID,
                &["rabbit-1@0", "compute-01@1", "endpoint-2@2"],
            ),
            namespace(DRIVE, 2, XFS_UID, &["compute-03@7", "compute-77@4"]),
            namespace(DRIVE, 4, "somebody's", &["rabbit-1@0"]),
        ]);
        assert_eq!(reasons(&seen), "");
        assert!(units_for(&seen).is_empty());
    }

    #[test]
    fn access_is_withdrawn_by_slot_and_by_name() {
        let seen = seen(vec![
            namespace(DRIVE, 1, samples::BLOCK_UID, &["compute-02@7", "compute-01@1"]),
            namespace(OTHER, 1, samples::BLOCK_UID, &["compute-03@2"]),
        ]);
        let expected = ["compute-03 (endpoint 2)", "compute-02 (endpoint 7)"];
        assert_eq!(
            units_for(&seen),
            expected.map(|expected| format!("{}/{expected}", samples::BLOCK_UID))
        );
        assert_eq!(reasons(&seen).matches("still reaches").count(), 2, "{}", reasons(&seen));
    }

    #[test]
    fn unreadable_drives_keep_a_fence_unproved() {
        let gone = seen(Vec::new());
        assert_eq!(reasons(&gone), "", "a healthy drive shows that the namespace is gone");

        let mut absent = seen(Vec::new());
        absent.drives.remove(0);
        assert!(reasons(&absent).contains("namespace 1 of drive"), "its drive is not there at all");

        let mut faulty = seen(vec![namespace(DRIVE, 1, samples::BLOCK_UID, &[])]);
        faulty.drives[0] = drive_called(DRIVE, Some("it does not answer"));
        assert!(reasons(&faulty).contains("it does not answer"), "{}", reasons(&faulty));

        let mut faulty = seen(vec![namespace(OTHER, 7, LOST_UID, &[])]);
        faulty.drives[1] = drive_called(OTHER, Some("it does not answer"));
        assert!(reasons(&faulty).contains("it does not answer"), "its owner is unknown");

        let mut faulty = seen(vec![namespace(OTHER, 7, XFS_UID, &[])]);
        faulty.drives[1] = drive_called(OTHER, Some("it does not answer"));
        assert_eq!(reasons(&faulty), "", "only an XFS is on it");

        let stranger = seen(vec![namespace(DRIVE, 1, samples::BLOCK_UID, &["compute-77@4"])]);
        assert!(reasons(&stranger).contains("which may be compute-03"), "{}", reasons(&stranger));
        let foreign = seen(vec![namespace(DRIVE, 9, "somebody's", &["endpoint-7@7"])]);
        assert!(reasons(&foreign).contains("still reaches"), "the records may be lost");
    }

    #[test]
    fn only_a_replaced_drive_is_no_doubt() {
        let lost = [samples::BLOCK_UID, LOST_UID].map(|owner| namespace(DRIVE, 1, owner, &[]));
        let mut seen = seen(lost.to_vec());
        seen.drives[0] = drive_called(DRIVE, Some("another is in its slot"));
        assert_eq!(unproved(&seen, &claims(), &hosts()).len(), 2, "{}", reasons(&seen));
        seen.replaced.insert(DRIVE.parse().unwrap());
        assert_eq!(reasons(&seen), "");
        seen.namespaces.push(namespace(OTHER, 1, LOST_UID, &["compute-03@7"]));
        assert!(reasons(&seen).contains("still reaches"), "the others count: {}", reasons(&seen));
    }

    #[test]
    fn a_drive_with_an_unreadable_ledger_is_a_doubt() {
        let mut seen = seen(Vec::new());
        seen.drives[1] = drive_called(OTHER, Some("its ledger cannot be read"));
        assert_eq!(reasons(&seen), "");
        seen.unreadable.insert(OTHER.parse().unwrap());
        let expected =
            format!("the namespaces on drive {OTHER} are unknown: its ledger cannot be read");
        assert_eq!(reasons(&seen), expected);
    }

    #[test]
    fn an_unreadable_object_with_a_gfs2_is_a_doubt() {
        let read = |set: &str| {
            let object = json!({
                "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfNodeBlockStorage",
                "metadata": {"name": "x", "uid": XFS_UID, "labels": {"nnf.cray.hpe.com/allocationset": set}},
                "spec": {"allocations": "many"}
            });
            Claims::new(&[serde_json::from_value(object).unwrap()]).unreadable.len()
        };
        assert_eq!((read("gfs2"), read("xfs")), (1, 0));
    }
}

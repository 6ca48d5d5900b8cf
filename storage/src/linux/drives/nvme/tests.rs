//! A rabbit's drives when they are not there.

use super::*;

fn drives(state: &Path, sysfs: &Path) -> NvmeDrives {
    let (node, second) = ("rabbit-1".parse().unwrap(), Duration::from_secs(60));
    let drives = NvmeDrives::open(state, node, Vec::new(), second, second).unwrap();
    NvmeDrives { reach: Reach::new(sysfs), ..drives }
}

#[test]
fn a_drive_that_is_gone_keeps_its_namespaces_and_takes_no_more() {
    let (state, sysfs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let nqn: Nqn = "nqn.2019-08.org.qemu:drive0".parse().unwrap();
    let allocation =
        AllocationId { owner: "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap(), index: 0 };
    let drives = drives(state.path(), sysfs.path());
    let ledger = Ledger::open(&drives.ledgers, &nqn).unwrap();
    ledger.made(allocation, ledger::Found { nsid: 3, nguid: [1; 16], size: 4096 }, true).unwrap();

    let inventory = drives.inventory().unwrap();
    let [namespace] = &inventory.namespaces[..] else { panic!("{inventory:?}") };
    let id = NamespaceId { subsystem: nqn, nsid: 3 };
    assert_eq!((&namespace.id, namespace.size), (&id, 4096));
    assert_eq!(namespace.owner, crate::observed::NamespaceOwner::Ours(allocation));
    assert!(namespace.access.is_empty() && namespace.device.is_none());
    let [drive] = &inventory.drives[..] else { panic!("{inventory:?}") };
    assert_eq!((drive.free(), drive.fault.as_deref()), (0, Some(ABSENT)));

    let refused = drives.delete(&id, allocation).unwrap_err();
    assert!(matches!(refused, StepError::System { .. }), "{refused}");
    assert_eq!(drives.inventory().unwrap().namespaces.len(), 1, "it is not forgotten");
}

#[test]
fn a_node_without_drives_has_none() {
    let (state, sysfs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let inventory = drives(state.path(), sysfs.path()).inventory().unwrap();
    assert!(inventory.drives.is_empty() && inventory.namespaces.is_empty());
}

#[test]
fn a_ledger_that_cannot_be_read_fails_the_look() {
    let (state, sysfs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let drives = drives(state.path(), sysfs.path());
    fs::write(drives.ledgers.join("nqn.2019-08.org.qemu:drive0.json"), "{").unwrap();
    assert!(drives.inventory().is_err());
}

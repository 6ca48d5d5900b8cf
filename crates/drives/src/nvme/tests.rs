//! Tests drives that are absent, unreadable or replaced.

mod chassis;

use std::{collections::BTreeSet, fs, path::Path, thread};

use storage::{Step, desired::AllocationId};

use super::*;
use crate::Drives;

fn drives(state: &Path, sysfs: &Path) -> NvmeDrives {
    let (node, second) = ("rabbit-1".parse().unwrap(), Duration::from_secs(60));
    let config = NvmeConfig {
        node,
        models: Vec::new(),
        switches: None,
        ledgers: state.join("drives"),
        sysfs: sysfs.to_owned(),
        look: second,
        change: second,
    };
    NvmeDrives::open(config).unwrap()
}

fn forget(id: &NamespaceId, allocation: AllocationId) -> Step {
    Step::ForgetNamespace { id: id.clone(), allocation }
}

#[test]
fn an_absent_drive_keeps_its_namespaces_and_has_no_free_bytes() {
    let (state, sysfs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let nqn: Nqn = "nqn.2019-08.org.qemu:drive0".parse().unwrap();
    let allocation =
        AllocationId { owner: "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap(), index: 0 };
    let drives = drives(state.path(), sysfs.path());
    let ledger = drives.ledgers.ledger(&nqn).unwrap();
    ledger
        .record_created(
            allocation,
            ledger::Found { nsid: 3, nguid: [1; 16], size: 4096 },
            1,
            ledger::Creation::Complete,
        )
        .unwrap();

    let inventory = drives.inventory().unwrap();
    let [namespace] = &inventory.namespaces[..] else { panic!("{inventory:?}") };
    let id = NamespaceId { subsystem: nqn, nsid: 3 };
    assert_eq!((&namespace.id, namespace.size), (&id, 4096));
    assert_eq!(namespace.owner, storage::observed::NamespaceOwner::Ours(allocation));
    assert!(namespace.access.is_empty() && namespace.device.is_none());
    let [drive] = &inventory.drives[..] else { panic!("{inventory:?}") };
    assert_eq!((drive.free(), drive.fault.as_deref()), (0, Some(ABSENT)));

    let refused = drives.apply(&Step::DeleteNamespace { id: id.clone(), allocation }).unwrap_err();
    assert!(matches!(refused, StepError::System { .. }), "{refused}");
    assert_eq!(drives.inventory().unwrap().namespaces.len(), 1, "the namespace stays recorded");
}

#[test]
fn inventory_is_empty_on_a_node_without_drives() {
    let (state, sysfs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let inventory = drives(state.path(), sysfs.path()).inventory().unwrap();
    assert!(inventory.drives.is_empty() && inventory.namespaces.is_empty());
}

#[test]
fn an_unreadable_ledger_makes_only_its_own_drive_faulty_and_is_not_overwritten() {
    let (state, sysfs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let drives = drives(state.path(), sysfs.path());
    plug(sysfs.path(), "drive0", "A", "3");
    let (bad, other): (Nqn, Nqn) = (
        "nqn.2019-08.org.qemu:drive0".parse().unwrap(),
        "nqn.2019-08.org.qemu:drive1".parse().unwrap(),
    );
    let allocation =
        AllocationId { owner: "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap(), index: 0 };
    let found = ledger::Found { nsid: 3, nguid: [1; 16], size: 4096 };
    drives
        .ledgers
        .ledger(&other)
        .unwrap()
        .record_created(allocation, found, 16, ledger::Creation::Complete)
        .unwrap();
    let file = drives.ledgers.path(&bad);
    fs::write(&file, "{").unwrap();

    let inventory = drives.inventory().unwrap();
    assert_eq!(
        inventory.unreadable,
        BTreeSet::from([bad.clone()]),
        "a drive with an unreadable ledger does not count as empty"
    );
    assert_eq!(inventory.namespaces.len(), 1, "the namespace of the other drive is known");
    let drive = inventory.drives.iter().find(|drive| drive.nqn == bad).unwrap();
    let fault = drive.fault.as_deref().unwrap();
    assert!(fault.contains("drive0.json cannot be read (EOF"), "{fault}");
    assert_eq!(drive.free(), 0);
    let id = NamespaceId { subsystem: bad.clone(), nsid: 3 };
    drives.apply(&Step::DeleteNamespace { id: id.clone(), allocation }).unwrap_err();
    let (size, members) = (4096, 16);
    drives.apply(&Step::AdoptNamespace { id: id.clone(), allocation, size, members }).unwrap_err();
    drives
        .apply(&Step::CreateNamespace { allocation, drive: bad.clone(), size, members })
        .unwrap_err();
    drives.apply(&forget(&id, allocation)).unwrap_err();
    drives.device(&id, None).unwrap_err();
    assert_eq!(fs::read(&file).unwrap(), b"{", "the ledger is not overwritten");

    fs::remove_file(&file).unwrap();
    assert!(
        drives.inventory().unwrap().unreadable.is_empty(),
        "each observation reads the ledger again"
    );
}

#[test]
fn a_drive_whose_nqn_is_no_file_name_has_a_ledger() {
    let allocation =
        AllocationId { owner: "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap(), index: 0 };
    let long = "x".repeat(256 - "nqn.2019-08.org.qemu:".len());
    for name in [long.as_str(), "S/N 1     MODEL 2"] {
        let (state, sysfs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        plug(sysfs.path(), name, "A", "3");
        let nqn: Nqn = format!("nqn.2019-08.org.qemu:{name}").parse().unwrap();
        let counts_and_fault = |drives: &NvmeDrives| {
            let inventory = drives.inventory().unwrap();
            let [drive] = &inventory.drives[..] else { panic!("{name}: {inventory:?}") };
            assert_eq!(drive.nqn, nqn);
            (inventory.namespaces.len(), inventory.unreadable.len(), drive.fault.clone().unwrap())
        };
        {
            let drives = drives(state.path(), sysfs.path());
            assert!(
                counts_and_fault(&drives).2.starts_with("identify the drive"),
                "no device answers the command"
            );
            let found = ledger::Found { nsid: 3, nguid: [1; 16], size: 4096 };
            drives
                .ledgers
                .ledger(&nqn)
                .unwrap()
                .record_created(allocation, found, 16, ledger::Creation::Complete)
                .unwrap();
        }
        #[expect(clippy::disallowed_methods, reason = "the test planted this tree")]
        fs::remove_dir_all(sysfs.path().join("class")).unwrap();
        let path = {
            let drives = drives(state.path(), sysfs.path());
            assert_eq!(
                counts_and_fault(&drives),
                (1, 0, ABSENT.to_owned()),
                "the drive was unplugged"
            );
            drives.ledgers.path(&nqn)
        };
        fs::write(&path, "{").unwrap();
        let inventory = drives(state.path(), sysfs.path()).inventory().unwrap();
        assert_eq!(
            inventory.unreadable.len(),
            1,
            "the drive may have namespaces of ours: {inventory:?}"
        );
        let fault = inventory.drives[0].fault.as_deref().unwrap();
        assert!(fault.contains(&format!("ledger {} cannot be read", path.display())), "{fault}");
        plug(sysfs.path(), name, "A", "4");
        let (_, unread, fault) = counts_and_fault(&drives(state.path(), sysfs.path()));
        assert!(unread == 1 && fault.contains("cannot be read"), "{fault}");
    }
}

#[test]
fn a_drive_of_a_model_that_is_not_configured_is_left_out_and_logged() {
    let (state, sysfs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let models = vec!["KCM7".to_owned()];
    let drives = NvmeDrives { models, ..drives(state.path(), sysfs.path()) };
    plug(sysfs.path(), "drive0", "A", "3");
    assert!(drives.inventory().unwrap().drives.is_empty());
    let nqn: Nqn = "nqn.2019-08.org.qemu:drive0".parse().unwrap();
    let warning = drives.warned.lock().get(&nqn).cloned();
    assert_eq!(warning.as_deref(), Some("its model \"\" is not among the models of --drive-model"));
}

#[test]
fn forget_namespace_is_refused_while_the_drive_is_plugged_in() {
    let (state, sysfs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let drives = drives(state.path(), sysfs.path());
    plug(sysfs.path(), "drive0", "A", "3");
    let id = NamespaceId { subsystem: "nqn.2019-08.org.qemu:drive0".parse().unwrap(), nsid: 3 };
    let allocation =
        AllocationId { owner: "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap(), index: 0 };
    let found = ledger::Found { nsid: 3, nguid: [1; 16], size: 4096 };
    drives
        .ledgers
        .ledger(&id.subsystem)
        .unwrap()
        .record_created(allocation, found, 16, ledger::Creation::Complete)
        .unwrap();
    let refused = drives.apply(&forget(&id, allocation)).unwrap_err();
    assert!(matches!(refused, StepError::Changed(_)), "{refused}");
    // The directory in place of the ledger's temporary file makes the next write of the ledger fail, like a full disk;
    // the observation must succeed nevertheless.
    let in_the_way = drives.ledgers.path(&id.subsystem).with_extension("new");
    fs::create_dir(in_the_way).unwrap();
    let inventory = drives.inventory().unwrap();
    assert_eq!(inventory.namespaces.len(), 1);
    let [drive] = &inventory.drives[..] else { panic!("{inventory:?}") };
    assert!(drive.fault.is_some() && drive.serial == "A", "the drive does not answer: {drive:?}");
    assert_eq!((drive.slot, &*drive.label), (0, "3"));
}

#[test]
fn an_observation_sends_no_command_to_a_drive_while_a_change_of_it_has_not_ended() {
    let (state, sysfs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let changes = BoundedCalls::of_changes(Duration::from_millis(50));
    let drives = NvmeDrives { changes, ..drives(state.path(), sysfs.path()) };
    plug(sysfs.path(), "drive0", "A", "3");
    let nqn: Nqn = "nqn.2019-08.org.qemu:drive0".parse().unwrap();
    let fault = || {
        let inventory = drives.inventory().unwrap();
        inventory.drives.iter().find(|drive| drive.nqn == nqn).unwrap().fault.clone().unwrap()
    };
    let (release, held) = std::sync::mpsc::channel::<()>();
    drives.changes.run(&nqn.to_string(), move || held.recv().is_ok()).unwrap_err();
    assert!(fault().starts_with("the change did not end within"), "{}", fault());
    drop(release);
    while drives.changes.unended(&nqn.to_string()).is_some() {
        thread::yield_now();
    }
    assert!(!fault().contains("change"), "the drive gets commands again: {}", fault());
}

/// Creates the sysfs entries of a drive in a slot. The drive has no device node in `/dev`, so commands to it fail.
fn plug(sysfs: &Path, drive: &str, serial: &str, slot: &str) {
    let put = |file: &str, text: &str| {
        let path = sysfs.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let class = "class/nvme/nvme-none";
    put(&format!("{class}/subsysnqn"), &format!("nqn.2019-08.org.qemu:{drive}\n"));
    put(&format!("{class}/serial"), &format!("{serial}            \n"));
    put(&format!("{class}/transport"), "pcie\n");
    put(&format!("bus/pci/slots/{slot}/address"), "0000:01:00\n");
    put("pci/0000:01:00.0/vendor", "0x1b36\n");
    std::os::unix::fs::symlink(sysfs.join("pci/0000:01:00.0"), sysfs.join(class).join("device"))
        .unwrap();
}

#[test]
fn a_drive_is_replaced_when_another_drive_is_in_its_slot() {
    let gone: Nqn = "nqn.2019-08.org.qemu:drive0".parse().unwrap();
    let allocation =
        AllocationId { owner: "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap(), index: 0 };
    for (drive, serial, slot, is_gone) in [
        ("drive1", "B", "3", true),
        ("drive1", "B", "4", false),
        // The drive reports another NQN after an update of its firmware.
        ("drive0-again", "A", "3", false),
        ("drive1", "", "3", false),
    ] {
        let (state, sysfs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let drives = drives(state.path(), sysfs.path());
        let ledger = drives.ledgers.ledger(&gone).unwrap();
        let last = ledger::SlotAndSerial { slot: "3".into(), serial: "A".into() };
        ledger.record_slot(&last).unwrap();
        assert_eq!(ledger.slot_and_serial(), None, "a drive without records has no recorded slot");
        let found = ledger::Found { nsid: 3, nguid: [1; 16], size: 4096 };
        ledger.record_created(allocation, found, 16, ledger::Creation::Complete).unwrap();
        ledger.record_slot(&last).unwrap();
        plug(sysfs.path(), drive, serial, slot);

        let inventory = drives.inventory().unwrap();
        assert_eq!(inventory.replaced.contains(&gone), is_gone, "{drive} {serial} {slot}");
        assert_eq!(inventory.namespaces.len(), 1);
        let lost = inventory.drives.iter().find(|drive| drive.nqn == gone).unwrap();
        assert_eq!(
            (&*lost.serial, lost.fault.is_some()),
            ("A", true),
            "the serial number comes from the ledger"
        );
        assert_eq!(lost.label, "3", "the label is that of the drive's last slot");
        let id = NamespaceId { subsystem: gone.clone(), nsid: 3 };
        drives.apply(&Step::ReplaceNamespace { id: id.clone(), allocation }).unwrap();
        let owner = &drives.inventory().unwrap().namespaces[0].owner;
        assert_eq!(*owner, storage::observed::NamespaceOwner::Replaced(allocation));

        drives.apply(&forget(&id, AllocationId { index: 9, ..allocation })).unwrap();
        assert_eq!(
            drives.inventory().unwrap().namespaces.len(),
            1,
            "another allocation owns the namespace"
        );
        drives.apply(&forget(&id, allocation)).unwrap();
        drives.apply(&forget(&id, allocation)).unwrap();
        let inventory = drives.inventory().unwrap();
        assert!(inventory.namespaces.is_empty() && inventory.replaced.is_empty());
    }
}

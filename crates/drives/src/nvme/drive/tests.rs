//! Tests a single simulated drive: the tests create, attach, detach and delete namespaces, also
//! with crashes in between.

use std::{collections::BTreeSet, fs};

use process::bounded::{BoundedCalls, give_up, is_given_up};
use storage::{
    desired::{AllocationId, NodeName},
    health::Temperature,
    observed::DriveWarning,
};

use super::{format::BLOCK_POWER, *};
use crate::nvme::{
    admin::{cns, opcode},
    fake::{Lost, Simulated, Surprise},
    ledger::Wanted,
};

const MIB: u64 = 1 << 20;

struct Bench {
    simulated: Simulated,
    state: tempfile::TempDir,
}

fn nqn() -> Nqn {
    "nqn.2019-08.org.qemu:drive0".parse().unwrap()
}

impl Bench {
    fn new(functions: u16) -> Self {
        let simulated = Simulated::new(64 * MIB, functions);
        Self { simulated, state: tempfile::tempdir().unwrap() }
    }

    /// Returns the drive as an agent sees it that has just started and knows only the ledger on disk.
    fn start(&self) -> NvmeDrive {
        let ledger = Ledger::open(self.state.path(), &nqn()).unwrap();
        let admin = Admin::new(Box::new(self.simulated.clone()));
        NvmeDrive::new(nqn(), admin, Arc::new(ledger))
    }

    /// Creates a namespace that the ledger does not know; it may get the NSID of a deleted namespace.
    fn plant(&self, size: u64) -> u32 {
        let admin = Admin::new(Box::new(self.simulated.clone()));
        admin.create(size >> BLOCK_POWER, 1).unwrap()
    }

    fn unallocated(&self) -> u64 {
        self.simulated.state().unallocated()
    }
}

fn allocation(index: u32) -> AllocationId {
    AllocationId { owner: "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap(), index }
}

fn wanted_size(size: u64) -> Wanted {
    Wanted { size, members: 1 }
}

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

fn owners(drive: &NvmeDrive) -> Vec<NamespaceOwner> {
    let namespaces = drive.look().unwrap().namespaces;
    namespaces.into_iter().map(|(namespace, _)| namespace.owner).collect()
}

fn names(drive: &NvmeDrive) -> Vec<String> {
    let contents = drive.look().unwrap();
    contents
        .namespaces
        .iter()
        .flat_map(|(namespace, _)| &namespace.access)
        .map(|host| host.node.to_string())
        .collect()
}

#[test]
fn a_namespace_is_created_attached_detached_erased_and_deleted() {
    let bench = Bench::new(17);
    let drive = bench.start();
    drive.create(allocation(0), wanted_size(8 * MIB), 1).unwrap();
    drive.create(allocation(0), wanted_size(8 * MIB), 1).unwrap();
    assert_eq!(owners(&drive).len(), 1, "the second call finds the namespace");
    assert_eq!(drive.look().unwrap().drive.free(), 56 * MIB);

    drive.attach(1, Endpoint::Compute(6), &node("compute-03")).unwrap();
    drive.attach(1, Endpoint::Compute(6), &node("compute-03")).unwrap();
    drive.attach(1, Endpoint::Rabbit, &node("rabbit-1")).unwrap();
    assert_eq!(bench.simulated.state().namespaces[&1].attached, BTreeSet::from([1, 8]));
    assert_eq!(names(&drive), ["rabbit-1", "compute-03"]);
    assert_eq!(
        names(&bench.start()),
        ["rabbit-1", "compute-03"],
        "the names are the same after a restart"
    );

    drive.detach(1, &node("compute-03")).unwrap();
    drive.detach(1, &node("compute-03")).unwrap();
    assert_eq!(bench.simulated.state().namespaces[&1].attached, BTreeSet::from([1]));
    remove(&drive, 1, allocation(0)).unwrap();
    remove(&drive, 1, allocation(0)).unwrap();
    assert_eq!((bench.unallocated(), drive.look().unwrap().namespaces.len()), (64 * MIB, 0));
    assert!(drive.ledger.records().is_empty());
}

/// Erases and deletes a namespace, as a release does.
fn remove(drive: &NvmeDrive, nsid: u32, allocation: AllocationId) -> Result<()> {
    drive.erase(nsid, allocation)?;
    drive.delete(nsid, allocation)
}

/// Returns the number of commands for the whole life of a namespace, on a drive with this number of other namespaces.
fn commands_beside(others: u32) -> u32 {
    let bench = Bench::new(17);
    let drive = bench.start();
    for other in 1..=others {
        drive.create(allocation(other), wanted_size(MIB), 1).unwrap();
    }
    let before = bench.simulated.state().answered;
    drive.create(allocation(0), wanted_size(MIB), 1).unwrap();
    let nsid = others + 1;
    drive.attach(nsid, Endpoint::Rabbit, &node("rabbit-1")).unwrap();
    drive.detach(nsid, &node("rabbit-1")).unwrap();
    remove(&drive, nsid, allocation(0)).unwrap();
    bench.simulated.state().answered - before
}

#[test]
fn the_number_of_commands_for_a_namespace_does_not_depend_on_the_drives_other_namespaces() {
    assert_eq!(commands_beside(1), commands_beside(12));
}

#[test]
fn a_namespace_is_not_deleted_before_it_was_erased() {
    let bench = Bench::new(17);
    let drive = bench.start();
    drive.create(allocation(0), wanted_size(MIB), 1).unwrap();
    bench.simulated.state().lose = Some((opcode::FORMAT, Lost::Before));
    let error = remove(&drive, 1, allocation(0)).unwrap_err();
    assert_eq!(error.to_string(), "erase the namespace");
    let attached = bench.simulated.state().namespaces[&1].attached.clone();
    assert_eq!(
        attached,
        BTreeSet::new(),
        "the physical function is detached although the erasure failed"
    );
    assert_eq!(owners(&drive), [NamespaceOwner::Ours(allocation(0))]);

    bench.simulated.state().lose = Some((0x0d, Lost::Before));
    remove(&drive, 1, allocation(0)).unwrap_err();
    assert!(bench.simulated.state().namespaces[&1].erased);
    remove(&drive, 1, allocation(0)).unwrap();
    assert_eq!(bench.unallocated(), 64 * MIB);
}

#[test]
fn an_erased_namespace_is_erased_again_only_after_an_attachment() {
    for (given_meanwhile, formats) in [(false, 1), (true, 2)] {
        let bench = Bench::new(17);
        let drive = bench.start();
        drive.create(allocation(0), wanted_size(MIB), 1).unwrap();
        bench.simulated.state().lose = Some((0x0d, Lost::Before));
        remove(&drive, 1, allocation(0)).unwrap_err();
        let drive = bench.start();
        assert_eq!(
            owners(&drive),
            [NamespaceOwner::Partial(allocation(0))],
            "the erased namespace holds no data"
        );
        if given_meanwhile {
            drive.attach(1, Endpoint::Rabbit, &node("rabbit-1")).unwrap();
        }
        remove(&drive, 1, allocation(0)).unwrap();
        assert_eq!(bench.unallocated(), 64 * MIB);
        assert_eq!(bench.simulated.state().formats, formats);
    }
}

/// A drive may take longer for an erasure than the caller waits: the caller then gives up, that is, it stops waiting.
#[test]
fn erase_records_the_erasure_although_its_caller_stopped_waiting() {
    let bench = Bench::new(17);
    let drive = bench.start();
    drive.create(allocation(0), wanted_size(MIB), 1).unwrap();
    bench.simulated.state().surprise = Some(Surprise {
        before: |command| command.opcode == opcode::FORMAT,
        happens: |_| give_up(),
    });
    drive.erase(1, allocation(0)).unwrap();
    assert!(is_given_up(), "the caller gave up");
    assert!(drive.ledger.records()[0].erased);
    assert_eq!(bench.simulated.state().namespaces[&1].attached, BTreeSet::new());
}

#[test]
fn delete_detaches_every_host_and_erases_nothing_when_its_caller_stops_waiting_before_the_erasure()
{
    let bench = Bench::new(17);
    let drive = bench.start();
    drive.create(allocation(0), wanted_size(MIB), 1).unwrap();
    // `delete` attaches the namespace to the physical function, which erases it. The caller stops waiting just before
    // this attachment (`cdw10` is 0; for a detachment it is 1).
    bench.simulated.state().surprise = Some(Surprise {
        before: |command| command.opcode == opcode::NAMESPACE_ATTACHMENT && command.cdw10 == 0,
        happens: |_| give_up(),
    });
    remove(&drive, 1, allocation(0)).unwrap_err();
    let original = bench.simulated.state().namespaces[&1].clone();
    assert!(!original.erased && original.attached.is_empty(), "{original:?}");
}

#[test]
fn delete_does_not_erase_another_namespace_that_got_the_nsid_before_the_erasure() {
    let bench = Bench::new(17);
    let drive = bench.start();
    drive.create(allocation(0), wanted_size(MIB), 1).unwrap();
    bench.simulated.state().surprise = Some(Surprise {
        before: |command| command.opcode == opcode::NAMESPACE_ATTACHMENT,
        happens: |state| state.namespaces.get_mut(&1).unwrap().nguid = [9; 16],
    });
    let error = remove(&drive, 1, allocation(0)).unwrap_err();
    assert!(error.to_string().contains("was replaced by another"), "{error}");
    let original = bench.simulated.state().namespaces[&1].clone();
    assert!(!original.erased && original.attached.is_empty());
}

#[test]
fn a_drive_can_be_read_while_its_namespaces_are_deleted() {
    let bench = Bench::new(17);
    let drive = bench.start();
    drive.create(allocation(0), wanted_size(MIB), 1).unwrap();
    drive.create(allocation(1), wanted_size(MIB), 1).unwrap();
    bench.simulated.state().surprise = Some(Surprise {
        before: |command| command.cdw10 == u32::from(cns::ATTACHED_CONTROLLERS),
        happens: |state| state.namespaces.clear(),
    });
    assert_eq!(owners(&drive), []);
    drive.create(allocation(2), wanted_size(MIB), 1).unwrap();
    assert_eq!(owners(&drive), [NamespaceOwner::Ours(allocation(2))]);
}

#[test]
fn a_drive_with_another_nqn_is_refused() {
    let bench = Bench::new(17);
    let drive = bench.start();
    bench.simulated.state().nqn = "nqn.2019-08.org.qemu:drive1".to_owned();
    let refused = drive.create(allocation(0), wanted_size(MIB), 1).unwrap_err().to_string();
    assert_eq!(refused, "drive nqn.2019-08.org.qemu:drive1 answers in its place");
    assert_eq!(bench.unallocated(), 64 * MIB);
}

#[test]
fn delete_fails_on_a_drive_that_erases_all_namespaces_at_once() {
    for bits in [0b01, 0b10, 0b11] {
        let bench = Bench::new(17);
        let drive = bench.start();
        let other = bench.plant(MIB);
        drive.create(allocation(0), wanted_size(MIB), 1).unwrap();
        bench.simulated.state().format = bits;
        let error = remove(&drive, other + 1, allocation(0)).unwrap_err();
        assert!(error.to_string().contains("erases every namespace"), "{error}");
        assert!(!bench.simulated.state().namespaces[&other].erased, "FNA {bits:02b}b");
    }
}

#[test]
fn delete_keeps_another_namespace_that_got_the_nsid_while_the_deletion_waited() {
    let bench = Bench::new(17);
    let drive = Arc::new(bench.start());
    drive.create(allocation(0), wanted_size(MIB), 1).unwrap();
    let turn = drive.ledger.turn();
    let late = Arc::clone(&drive);
    let deletes = std::thread::spawn(move || remove(&late, 1, allocation(0)));
    while !bench.simulated.state().namespaces[&1].erased {
        std::thread::yield_now();
    }
    drive.admin.delete(1).unwrap();
    assert_eq!(bench.plant(2 * MIB), 1, "the drive reuses the NSID");
    drop(turn);
    // The thread may look for the namespace before or after the drive reused its NSID.
    drop(deletes.join().unwrap());
    assert_eq!(bench.unallocated(), 62 * MIB, "the other namespace exists");
}

#[test]
fn create_creates_nothing_when_its_caller_stops_waiting_before_its_turn() {
    let bench = Bench::new(17);
    let drive = Arc::new(bench.start());
    let turn = drive.ledger.turn();
    let (late, (tell, text)) = (Arc::clone(&drive), std::sync::mpsc::channel());
    let changes = BoundedCalls::of_changes(std::time::Duration::from_millis(50));
    let create = move || tell.send(late.create(allocation(0), wanted_size(MIB), 1)).unwrap();
    changes.run("drive0", create).unwrap_err();
    drop(turn);
    text.recv().unwrap().unwrap_err();
    assert_eq!(bench.unallocated(), 64 * MIB);
    drive.create(allocation(0), wanted_size(MIB), 1).unwrap();
    assert_eq!(bench.unallocated(), 63 * MIB, "the drive carries out other requests");
}

#[test]
fn a_namespace_left_by_a_crash_during_create_is_found_and_deleted() {
    for (lost, there) in [(Lost::Before, 0), (Lost::After, 1), (Lost::Cancelled, 1)] {
        let bench = Bench::new(17);
        bench.plant(MIB);
        let drive = bench.start();
        bench.simulated.state().lose = Some((0x0d, lost));
        drive.create(allocation(0), wanted_size(8 * MIB), 1).unwrap_err();

        let drive = bench.start();
        let partial: Vec<_> = owners(&drive)
            .into_iter()
            .filter(|owner| *owner == NamespaceOwner::Partial(allocation(0)))
            .collect();
        assert_eq!(partial.len(), there, "{lost:?}");
        remove(&drive, 2, allocation(0)).unwrap();
        drive.create(allocation(0), wanted_size(8 * MIB), 1).unwrap();
        assert_eq!(bench.unallocated(), 55 * MIB, "{lost:?}: the foreign namespace and ours exist");
        assert_eq!(owners(&drive)[0], NamespaceOwner::Unknown);
    }
}

#[test]
fn a_namespace_with_the_nsid_of_a_recorded_namespace_but_another_nguid_is_foreign() {
    let bench = Bench::new(17);
    let drive = bench.start();
    drive.create(allocation(0), wanted_size(MIB), 1).unwrap();
    bench.simulated.state().namespaces.clear();
    assert_eq!(bench.plant(MIB), 1);
    assert!(matches!(owners(&drive)[..], [NamespaceOwner::Foreign(_)]));
    let refused = remove(&drive, 1, allocation(0)).unwrap_err();
    assert!(matches!(refused, DriveError::NotOurs { .. }), "{refused}");
    let refused = drive.attach(1, Endpoint::Rabbit, &node("rabbit-1")).unwrap_err();
    assert!(matches!(refused, DriveError::NotOurs { .. }), "{refused}");
    assert_eq!(bench.unallocated(), 63 * MIB, "the namespace still exists");
}

#[test]
fn foreign_namespaces_are_listed_but_cannot_be_deleted_or_detached() {
    let bench = Bench::new(17);
    bench.plant(MIB);
    let drive = bench.start();
    assert_eq!(owners(&drive), [NamespaceOwner::Unknown]);
    assert!(remove(&drive, 1, allocation(0)).is_err());
    assert!(drive.detach(1, &node("endpoint-1")).is_err());
}

#[test]
fn a_host_without_a_recorded_name_has_the_name_of_its_endpoint_and_can_be_detached() {
    let bench = Bench::new(17);
    let drive = bench.start();
    drive.create(allocation(0), wanted_size(MIB), 1).unwrap();
    bench.simulated.state().namespaces.get_mut(&1).unwrap().attached.insert(5);
    assert_eq!(names(&drive), ["endpoint-4"]);
    drive.detach(1, &node("endpoint-4")).unwrap();
    assert!(names(&drive).is_empty());
}

#[test]
fn a_host_attached_at_a_new_endpoint_keeps_its_name_and_its_old_endpoint_gets_a_default_name() {
    let bench = Bench::new(17);
    let drive = bench.start();
    drive.create(allocation(0), wanted_size(MIB), 1).unwrap();
    drive.attach(1, Endpoint::Compute(3), &node("compute-1")).unwrap();
    drive.attach(1, Endpoint::Compute(5), &node("compute-1")).unwrap();
    for drive in [drive, bench.start()] {
        assert_eq!(names(&drive), ["endpoint-4", "compute-1"]);
    }
    bench.start().detach(1, &node("endpoint-4")).unwrap();
    assert_eq!(bench.simulated.state().namespaces[&1].attached, BTreeSet::from([7]));
}

#[test]
fn a_creation_on_a_full_drive_fails_and_reports_the_drives_free_bytes() {
    let bench = Bench::new(17);
    let drive = bench.start();
    assert!(
        matches!(drive.create(allocation(0), wanted_size(65 * MIB), 1), Err(DriveError::NoRoom(n)) if n == 64 * MIB)
    );
    drive.create(allocation(1), wanted_size(64 * MIB), 1).unwrap();
    assert!(matches!(drive.create(allocation(0), wanted_size(MIB), 1), Err(DriveError::NoRoom(0))));
}

#[test]
fn create_fails_without_free_nsids_and_reports_free_bytes_and_namespaces_when_the_drive_refuses() {
    let bench = Bench::new(17);
    let drive = bench.start();
    bench.simulated.state().most = 1;
    drive.create(allocation(1), wanted_size(MIB), 1).unwrap();
    assert_eq!(drive.look().unwrap().drive.max_namespaces, Some(1));
    let full = drive.create(allocation(0), wanted_size(MIB), 1);
    assert!(matches!(full, Err(DriveError::NoIdentifier(1))), "{full:?}");

    bench.simulated.state().most = 32;
    for (status, meaning) in [(0x4115, "not enough"), (0x4116, "no namespace identifier")] {
        bench.simulated.state().refuses = Some(status);
        let refused = drive.create(allocation(0), wanted_size(MIB), 1);
        let Err(DriveError::Refused(refused)) = refused else { panic!("{refused:?}") };
        assert!(refused.why.contains(meaning), "{refused}");
        let (left, namespaces, most) = (63 * MIB, 1, Some(32));
        let numbers = (refused.left, refused.namespaces, refused.max_namespaces);
        assert_eq!(numbers, (left, namespaces, most), "{refused}");
    }
    bench.simulated.state().refuses = None;
    assert_eq!(
        owners(&bench.start()),
        [NamespaceOwner::Ours(allocation(1))],
        "the failed creations left no namespace"
    );
    drive.create(allocation(0), wanted_size(MIB), 1).unwrap();
}

#[test]
fn a_namespace_that_may_hold_old_data_needs_zeroing_until_it_is_recorded_as_zeroed() {
    let bench = Bench::new(17);
    bench.simulated.state().reads_zero = false;
    let drive = bench.start();
    drive.create(allocation(0), wanted_size(MIB), 1).unwrap();
    let needs_zeroing = |drive: &NvmeDrive| drive.look().unwrap().namespaces[0].0.needs_zeroing;
    assert!(needs_zeroing(&bench.start()), "after a crash before the zeroing");
    drive.ledger.record_zeroed(1).unwrap();
    assert!(!needs_zeroing(&bench.start()));
    assert_eq!(owners(&drive), [NamespaceOwner::Ours(allocation(0))]);
}

#[test]
fn create_fails_on_a_drive_without_nguids_and_deletes_the_new_namespace() {
    let bench = Bench::new(17);
    bench.simulated.state().gives_nguid = false;
    let error = bench.start().create(allocation(0), wanted_size(MIB), 1).unwrap_err();
    assert!(error.to_string().contains("NGUID"), "{error}");
    assert_eq!(bench.unallocated(), 64 * MIB);
}

#[test]
fn attach_fails_for_a_host_without_a_virtual_function_and_names_the_endpoint() {
    let bench = Bench::new(4);
    let drive = bench.start();
    drive.create(allocation(0), wanted_size(MIB), 1).unwrap();
    let error = drive.attach(1, Endpoint::Compute(9), &node("compute-10")).unwrap_err();
    assert!(error.to_string().contains("endpoint 10"), "{error}");
    assert!(names(&drive).is_empty());
}

#[test]
fn warnings_of_a_drive_are_reported_and_cleared() {
    let bench = Bench::new(17);
    let drive = bench.start();
    bench.simulated.state().smart = (0b1010, 104);
    let contents = drive.look().unwrap();
    assert_eq!(contents.drive.warnings, [DriveWarning::Temperature, DriveWarning::ReadOnly]);
    assert_eq!(contents.drive.wear, 104);
    assert_eq!(contents.smart.temperature, None, "the drive reports no temperature");
    bench.simulated.state().smart = (0, 104);
    bench.simulated.state().kelvin = 273 + 49;
    let contents = drive.look().unwrap();
    assert!(contents.drive.warnings.is_empty());
    let warm = Temperature { now: 49, warning: Some(70), critical: None };
    assert_eq!(contents.smart.temperature, Some(warm));
}

#[test]
fn adopt_accepts_a_namespace_without_a_record_only_if_its_size_matches() {
    let bench = Bench::new(17);
    bench.start().create(allocation(0), wanted_size(MIB), 1).unwrap();
    bench.simulated.state().namespaces.get_mut(&1).unwrap().attached.insert(1);
    fs::remove_file(bench.state.path().join(format!("{}.json", nqn()))).unwrap();
    let drive = bench.start();
    assert_eq!(owners(&drive), [NamespaceOwner::Unknown]);
    assert!(drive.adopt(1, allocation(0), wanted_size(2 * MIB)).is_err(), "another size");
    assert!(drive.adopt(2, allocation(0), wanted_size(MIB)).is_err(), "no such namespace");
    assert_eq!(owners(&drive), [NamespaceOwner::Unknown]);
    drive.adopt(1, allocation(0), Wanted { size: MIB, members: 16 }).unwrap();
    drive.adopt(1, allocation(0), Wanted { size: MIB, members: 16 }).unwrap();
    assert!(
        drive.adopt(1, allocation(1), wanted_size(MIB)).is_err(),
        "the namespace has an owner already"
    );
    let drive = bench.start();
    assert_eq!(owners(&drive), [NamespaceOwner::Ours(allocation(0))]);
    assert_eq!(drive.look().unwrap().namespaces[0].0.members, 16);
    drive.attach(1, Endpoint::Rabbit, &node("rabbit-1")).unwrap();
    assert_eq!(names(&drive), ["rabbit-1"], "the host has its name again");
}

#[test]
fn adopt_refuses_a_namespace_whose_nsid_is_recorded_with_another_nguid() {
    let bench = Bench::new(17);
    bench.start().create(allocation(0), wanted_size(MIB), 1).unwrap();
    bench.simulated.state().namespaces.clear();
    bench.plant(MIB);
    let refused = bench.start().adopt(1, allocation(0), wanted_size(MIB)).unwrap_err();
    assert!(
        matches!(refused, DriveError::NotOurs { .. }),
        "the namespace has another NGUID: {refused}"
    );
}

#[test]
fn a_namespace_that_was_replaced_by_another_stays_until_it_is_deleted_for_its_allocation() {
    let bench = Bench::new(17);
    bench.start().create(allocation(0), wanted_size(MIB), 1).unwrap();
    // The drive is not plugged in: the agent has only its ledger.
    let ledger = Ledger::open(bench.state.path(), &nqn()).unwrap();
    ledger.record_replaced(1, allocation(1)).unwrap();
    assert_eq!(
        owners(&bench.start()),
        [NamespaceOwner::Ours(allocation(0))],
        "a record for another allocation has no effect"
    );
    let ledger = Ledger::open(bench.state.path(), &nqn()).unwrap();
    ledger.record_replaced(1, allocation(0)).unwrap();
    let drive = bench.start();
    assert_eq!(owners(&drive), [NamespaceOwner::Replaced(allocation(0))]);
    remove(&drive, 1, allocation(0)).unwrap();
    assert_eq!(bench.unallocated(), 64 * MIB);
}

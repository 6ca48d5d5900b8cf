//! Tests allocations over sixteen drives in memory that refuse commands, are pulled, or are replaced.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use storage::{
    ConvergeError, Converger, Desired, Host, Observed, Step,
    desired::{Access, Allocation, AllocationId, AllowedRoots, Endpoint, Reported, Spread},
    fake::{FakeHost, Fault},
    observed::{Drive, Namespace, NamespaceOwner},
    plan::missing_namespaces,
};

const MIB: u64 = 1 << 20;

fn rabbit(drives: u16) -> (Arc<FakeHost>, Converger) {
    let roots = AllowedRoots::new(["/mnt/nnf".into()]).unwrap();
    let node = "rabbit-1".parse().unwrap();
    let host = Arc::new(FakeHost::with_drives(node, roots, drives, 1024 * MIB));
    (host.clone(), Converger::new(host))
}

fn allocation(index: u32) -> Allocation {
    let owner = "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap();
    let access = [
        Access { endpoint: Endpoint::Rabbit, node: "rabbit-1".parse().unwrap() },
        Access { endpoint: Endpoint::Compute(0), node: "compute-1".parse().unwrap() },
    ];
    Allocation::new(AllocationId { owner, index }, 160 * MIB, Spread::RABBIT, access.into())
}

fn look(host: &FakeHost) -> Observed {
    host.observe(&Desired::Inventory).unwrap()
}

fn ours(host: &FakeHost, index: u32) -> Vec<Namespace> {
    let owner = NamespaceOwner::Ours(allocation(index).id);
    look(host).namespaces.into_iter().filter(|namespace| namespace.owner == owner).collect()
}

/// Returns the allocation, with its created namespaces reported in the status of its object.
fn reported_allocation(host: &FakeHost, index: u32) -> Allocation {
    let report = |namespace: Namespace| Reported {
        id: namespace.id,
        size: namespace.size,
        contested: false,
    };
    let reported = ours(host, index).into_iter().map(report).collect();
    Allocation { reported, ..allocation(index) }
}

fn free(host: &FakeHost) -> u64 {
    look(host).drives.iter().map(Drive::free).sum()
}

#[test]
fn drives_are_made_ready_by_steps_before_an_allocation_and_a_drive_that_stays_unready_gets_no_namespace()
 {
    let (host, converger) = rabbit(16);
    (0..16).for_each(|slot| host.lose_functions(slot));
    host.set_refusing(7, true);
    let before = look(&host);
    let planned = converger.plan(&Desired::Inventory).unwrap();
    assert_eq!((planned.len(), look(&host)), (16 * 4, before), "a plan changes nothing");

    let converged = converger.converge(&Desired::Allocated(allocation(0))).unwrap();
    let kinds: Vec<_> = converged.steps.iter().map(Step::kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "start-functions").count(), 15);
    assert_eq!(kinds.iter().filter(|kind| **kind == "create-namespace").count(), 15);
    let faults = converged.observed.drives.iter().filter_map(|drive| drive.fault.as_ref());
    let [fault] = &faults.collect::<Vec<_>>()[..] else {
        panic!("{:?}", converged.observed.drives)
    };
    assert!(fault.starts_with("free the resources of virtual functions"), "{fault}");
    assert!(fault.contains("drive-7"), "{fault}");

    host.set_refusing(7, false);
    let steps = converger.converge(&Desired::Inventory).unwrap().steps;
    let kinds: Vec<_> = steps.iter().map(Step::kind).collect();
    assert_eq!(kinds, ["free-resources", "enable-functions", "start-functions", "bind-functions"]);
}

#[test]
fn a_namespace_on_a_drive_that_returns_old_data_is_zeroed_before_a_host_gets_access() {
    let of_drive_3 =
        |step: &Step| step.drive().is_some_and(|drive| drive.to_string().ends_with("-3"));
    for fault in [Fault::Before, Fault::After] {
        let (host, converger) = rabbit(16);
        host.return_old_data(3);
        let wanted = Desired::Allocated(allocation(0));
        // Steps 0 to 15 create the namespaces, steps 16 to 45 give access to 15 of them, step 46 zeroes the last one.
        host.fail(46, fault);
        let failed = converger.converge(&wanted).unwrap_err().to_string();
        assert!(failed.contains("zero namespace"), "{failed}");
        assert!(ours(&host, 0).is_empty(), "an allocation that cannot be zeroed is taken back");
        converger.converge(&wanted).unwrap();
        let applied = host.applied();
        let attached = applied.iter().position(|step| step.kind() == "attach" && of_drive_3(step));
        let zeroed = applied.iter().rposition(|step| step.kind() == "zero-namespace");
        assert!(zeroed.is_some() && attached > zeroed, "{zeroed:?} {attached:?}");
    }
}

#[test]
fn zeroing_that_a_restart_interrupted_starts_again() {
    let (host, converger) = rabbit(16);
    host.return_old_data(3);
    // The agent is killed at the zeroing: it cannot take the allocation back.
    let wanted = Desired::Allocated(allocation(0));
    let steps = converger.plan(&wanted).unwrap();
    steps.iter().for_each(|step| host.apply(step).unwrap());
    let kinds: Vec<_> = converger.plan(&wanted).unwrap().iter().map(Step::kind).collect();
    assert_eq!((kinds.last(), kinds.len()), (Some(&"zero-namespace"), 15 * 2 + 1));
    let converged = Converger::new(host.clone()).converge(&wanted).unwrap();
    assert_eq!(converged.steps.iter().filter(|step| step.kind() == "zero-namespace").count(), 1);
    assert_eq!(ours(&host, 0).iter().filter(|namespace| namespace.access.len() == 2).count(), 16);
}

#[test]
fn a_failed_allocation_leaves_no_namespace_when_one_drive_refuses() {
    let (host, converger) = rabbit(16);
    converger.converge(&Desired::Allocated(allocation(0))).unwrap();
    let (before, left) = (look(&host), free(&host));
    host.set_refusing(7, true);
    let wanted = [1, 2].map(|index| Desired::Allocated(allocation(index)));
    for outcome in converger.converge_all(&wanted) {
        let error = outcome.unwrap_err();
        let ConvergeError::Step(failed) = &error else { panic!("{error}") };
        assert!(
            matches!(&*failed.step, Step::CreateNamespace { drive, .. } if drive.to_string().ends_with("drive-7"))
        );
    }
    assert_eq!((look(&host), free(&host)), (before, left));
    host.set_refusing(7, false);
    assert!(converger.converge_all(&wanted).iter().all(Result::is_ok));
    assert_eq!((ours(&host, 1).len(), ours(&host, 2).len()), (16, 16));
}

#[test]
fn an_allocation_converges_after_a_failure_of_any_step_and_leaks_nothing() {
    for fault in [Fault::Before, Fault::Halfway, Fault::After] {
        for after in 0..48 {
            let (host, converger) = rabbit(16);
            host.fail(after, fault);
            let first = converger.converge(&Desired::Allocated(allocation(0)));
            assert!(first.is_err(), "{fault:?} after {after}");
            let created = ours(&host, 0).len();
            assert!(
                created == if after < 16 { 0 } else { 16 },
                "{fault:?} after {after}: {created}"
            );
            assert_eq!(free(&host) % (10 * MIB), (16 * 1024 * MIB) % (10 * MIB));
            let again = Converger::new(host.clone());
            again.converge(&Desired::Allocated(allocation(0))).unwrap();
            assert_eq!(ours(&host, 0).len(), 16, "{fault:?} after {after}");
            host.fail(after, fault);
            let _ = again.converge(&Desired::Released(allocation(0).id));
            host.fail(usize::MAX, fault);
            again.converge(&Desired::Released(allocation(0).id)).unwrap();
            assert!(host.is_clean(), "{fault:?} after {after}");
            assert_eq!(free(&host), 16 * 1024 * MIB);
        }
    }
}

/// In contrast to a failed call, a killed agent releases nothing. The next agent continues from the existing state,
/// even if a step was only half done.
#[test]
fn an_allocation_converges_after_a_crash_at_any_step_and_leaks_nothing() {
    let wanted = Desired::Allocated(allocation(0));
    for after in 0..48 {
        for cut in [false, true] {
            let (host, _) = rabbit(18);
            let mut left = after;
            'alive: loop {
                let steps = Converger::new(host.clone()).plan(&wanted).unwrap();
                for step in steps {
                    if left == 0 {
                        if cut {
                            host.fail(0, Fault::Halfway);
                            host.apply(&step).unwrap_err();
                        }
                        break 'alive;
                    }
                    host.apply(&step).unwrap();
                    left -= 1;
                }
            }
            Converger::new(host.clone()).converge(&wanted).unwrap();
            let created = ours(&host, 0);
            let drives: std::collections::BTreeSet<_> =
                created.iter().map(|namespace| &namespace.id.subsystem).collect();
            assert_eq!((created.len(), drives.len()), (16, 16), "after {after}, {cut}");
            assert_eq!(free(&host), 18 * 1024 * MIB - 160 * MIB, "after {after}, {cut}");
            Converger::new(host.clone()).converge(&Desired::Released(allocation(0).id)).unwrap();
            assert!(host.is_clean());
        }
    }
}

#[test]
fn an_allocation_waits_for_a_pulled_drive_and_uses_the_same_namespaces_after_its_return() {
    let (host, converger) = rabbit(18);
    converger.converge(&Desired::Allocated(allocation(0))).unwrap();
    let (wanted, created) = (reported_allocation(&host, 0), ours(&host, 0));
    host.pull_drive(3);
    host.reboot();
    let observed = converger.converge(&Desired::Allocated(wanted.clone())).unwrap().observed;
    let lost = missing_namespaces(&wanted, &observed);
    let [lost] = &lost[..] else { panic!("{lost:?}") };
    assert!(
        lost.to_string().ends_with("drive-3 cannot be reached: it is not plugged in"),
        "{lost}"
    );
    assert_eq!(ours(&host, 0).iter().filter(|namespace| namespace.device.is_some()).count(), 15);

    host.put_drive_back(3);
    let observed = converger.converge(&Desired::Allocated(wanted.clone())).unwrap().observed;
    assert_eq!(missing_namespaces(&wanted, &observed), []);
    let ids =
        |all: &[Namespace]| all.iter().map(|namespace| namespace.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&ours(&host, 0)), ids(&created));

    host.pull_drive(3);
    let error = converger.converge(&Desired::Released(wanted.id)).unwrap_err();
    let ConvergeError::Step(failed) = &error else { panic!("{error}") };
    assert!(failed.step.to_string().contains("drive-3"), "{error}");
    host.put_drive_back(3);
    converger.converge(&Desired::Released(wanted.id)).unwrap();
    assert!(host.is_clean());
}

#[test]
fn a_namespace_on_a_replaced_drive_is_replaced_on_another_drive_and_only_forgotten_at_release() {
    let (host, converger) = rabbit(18);
    converger.converge(&Desired::Allocated(allocation(0))).unwrap();
    let wanted = reported_allocation(&host, 0);
    host.swap_drive(3);
    let kept = Allocation { replace: false, ..wanted.clone() };
    assert_eq!(converger.converge(&Desired::Allocated(kept)).unwrap().steps, []);
    for after in 0..3 {
        host.fail(after, Fault::After);
        let _ = Converger::new(host.clone()).converge(&Desired::Allocated(wanted.clone()));
    }
    host.fail(usize::MAX, Fault::Before);
    let observed = converger.converge(&Desired::Allocated(wanted.clone())).unwrap().observed;
    assert_eq!(missing_namespaces(&wanted, &observed), []);
    let now = ours(&host, 0);
    assert_eq!(now.len(), 16);
    assert!(
        now.iter().all(|namespace| namespace.device.is_some() && namespace.size == 10 * MIB),
        "{now:?}"
    );
    let of_old = |namespace: &&Namespace| namespace.owner == NamespaceOwner::Replaced(wanted.id);
    assert_eq!(observed.namespaces.iter().filter(of_old).count(), 1);
    assert_eq!(converger.plan(&Desired::Allocated(reported_allocation(&host, 0))).unwrap(), []);
    for after in 0..3 {
        host.fail(after, Fault::After);
        let _ = Converger::new(host.clone()).converge(&Desired::Released(wanted.id));
    }
    host.fail(usize::MAX, Fault::Before);
    converger.converge(&Desired::Released(wanted.id)).unwrap();
    let observed = host.observe(&Desired::Inventory).unwrap();
    assert!(observed.namespaces.is_empty(), "the records are gone: {:?}", observed.namespaces);
    assert_eq!(observed.drives.len(), 18, "the replaced drive is not awaited");
}

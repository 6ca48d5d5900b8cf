//! Tests that convergence reaches the empty plan within a few rounds, from any state and after a failure of any step,
//! and that foreign objects do not change.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod raids;
mod wishes;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use proptest::prelude::*;
use storage::{
    ConvergeError, Converger, Desired, Host, Observed, Step,
    desired::{Allocation, Endpoint, IndexTree},
    fake::{FakeHost, Fault},
    host::{ObserveError, StepError},
    observed::{Attached, Signature},
};
use wishes::{
    OCCUPIED, PLACES, Wish, allocation, covered, desired, fault, file_system, mount, point, roots,
    tree, wish,
};

fn rabbit() -> Arc<FakeHost> {
    let host = FakeHost::with_drives("rabbit-1".parse().unwrap(), roots(), 2, 1 << 30);
    host.plant_namespace(10 << 20);
    host.plant_mount(&point("/mnt/nnf/admin"), "server:/export", "nfs");
    host.plant_link(&point("/mnt/nnf/wf-1/link"), "/etc");
    host.plant_file(&point("/mnt/nnf/notes"));
    Arc::new(host)
}

/// Returns whether every failed step failed with EBUSY.
fn is_busy(error: &ConvergeError) -> bool {
    matches!(error, ConvergeError::Step(failed) if all_failed_with_ebusy(&failed.source))
}

fn all_failed_with_ebusy(error: &StepError) -> bool {
    match error {
        StepError::System { source, .. } => source.raw_os_error() == Some(libc::EBUSY),
        StepError::Several { first, others } => {
            all_failed_with_ebusy(first)
                && others.iter().all(|other| all_failed_with_ebusy(&other.source))
        }
        _ => false,
    }
}

/// Checks that the next call reaches the desired state, rejects the unit, or fails only because something is busy.
fn settles(converger: &Converger, desired: &Desired) -> Result<(), TestCaseError> {
    match converger.converge(desired) {
        Ok(_) => prop_assert_eq!(converger.plan(desired).unwrap(), vec![]),
        Err(ConvergeError::Rejected(_)) => {}
        Err(error) if is_busy(&error) => {}
        Err(error) => prop_assert!(false, "{desired:?}: {error:?}"),
    }
    Ok(())
}

/// Removes everything, in the order in which controllers request the removals.
fn take_down(host: &Arc<FakeHost>, converger: &Converger) -> Result<(), TestCaseError> {
    // The agent makes an inventory at each start, which makes the drives ready.
    let inventory = converger.converge(&Desired::Inventory);
    prop_assert!(inventory.is_ok(), "{inventory:?}");
    for index in 0..PLACES {
        for wish in [Wish::Unmounted(index), Wish::Gone(index), Wish::Released(index)] {
            let Some(desired) = desired(host, &wish) else { continue };
            if let Err(error) = converger.converge(&desired) {
                prop_assert!(false, "{wish:?}: {error:?}");
            }
        }
    }
    for wish in [Wish::TargetGone, Wish::TargetReleased, Wish::OnlyVolumes(false)] {
        let Some(desired) = desired(host, &wish) else { continue };
        if let Err(error) = converger.converge(&desired) {
            prop_assert!(false, "{wish:?}: {error:?}");
        }
    }
    converger
        .converge(&Desired::NoIndexTree(tree(0)))
        .map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_unit_converges_after_any_failure_and_foreign_things_do_not_change(
        story in prop::collection::vec((wish(), fault()), 1..24),
        occupied in any::<bool>(),
    ) {
        let host = rabbit();
        if occupied {
            host.plant_mount(&mount(&host, OCCUPIED).target, "tmpfs", "tmpfs");
        }
        let converger = Converger::new(host.clone());
        for (wish, fault) in &story {
            let Some(desired) = desired(&host, wish) else { continue };
            let foreign = host.foreign();
            if let Some((after, fault)) = fault {
                host.fail(*after, *fault);
                // The failure occurs only if there are enough steps.
                let _ = converger.converge(&desired);
                host.fail(usize::MAX, Fault::Before);
            }
            settles(&converger, &desired)?;
            prop_assert_eq!(&host.foreign(), &foreign);
        }
        // Remove the foreign mounts: as long as one of them covers a mount of Warren's, the removal of the covered
        // mount is rejected.
        (0..=PLACES).for_each(|index| host.lift_mounts(&covered(&host, index)));
        let last = mount(&host, OCCUPIED);
        let target = host.observe(&Desired::Unmounted(last.clone())).unwrap().target.unwrap();
        if occupied && target.mounted.is_none() {
            host.plant_mount(&last.target, "tmpfs", "tmpfs");
        }
        let foreign = host.foreign();
        take_down(&host, &converger)?;
        prop_assert!(host.is_clean(), "{:?}", host);
        prop_assert_eq!(host.foreign(), foreign);
    }
}

/// Panics when two threads use the node at the same time. The tests use it with units of one group only.
#[derive(Debug)]
struct Alone {
    host: FakeHost,
    inside: AtomicBool,
}

impl Alone {
    fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        assert!(!self.inside.swap(true, Ordering::SeqCst), "two units of one group at once");
        let result = work();
        thread::yield_now();
        self.inside.store(false, Ordering::SeqCst);
        result
    }
}

impl Host for Alone {
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
        self.enter(|| self.host.observe(desired))
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        self.enter(|| self.host.apply(step))
    }
}

#[test]
fn two_units_of_one_group_never_run_at_once() {
    let host = FakeHost::with_drives("rabbit-1".parse().unwrap(), roots(), 1, 1 << 30);
    let host = Arc::new(Alone { host, inside: AtomicBool::new(false) });
    let converger = Converger::new(host);
    let one_group = Desired::Allocated(allocation(0, 2));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    converger.converge(&one_group).unwrap();
                    converger.converge(&Desired::Released(allocation(0, 0).id)).unwrap();
                }
            });
        }
    });
}

/// Reports the start of its first attachment, and then holds the attachment up until the other end of
/// the channel is dropped.
#[derive(Debug)]
struct Slow {
    host: Arc<FakeHost>,
    attach: Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>,
}

impl Host for Slow {
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
        self.host.observe(desired)
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        if matches!(step, Step::Attach { .. })
            && let Some((begun, until)) = self.attach.lock().unwrap().take()
        {
            begun.send(()).unwrap();
            assert!(until.recv().is_err());
        }
        self.host.apply(step)
    }
}

/// A fence must withdraw access while other work on the allocation may take hours.
#[test]
fn a_withdrawal_does_not_wait_for_other_work_on_its_allocation() {
    let host = rabbit();
    Converger::new(host.clone()).converge(&Desired::Allocated(allocation(0, 1))).unwrap();
    let (begun, began) = mpsc::channel();
    let (hold, until) = mpsc::channel();
    let attach = Mutex::new(Some((begun, until)));
    let converger = Converger::new(Arc::new(Slow { host, attach }));
    let (done, ended) = mpsc::channel();
    let cut_off =
        Attached { endpoint: Some(Endpoint::Compute(0)), node: "compute-0".parse().unwrap() };
    let withdrawn = Desired::Withdrawn { allocation: allocation(0, 0).id, host: cut_off };
    thread::scope(|scope| {
        scope.spawn(|| converger.converge(&Desired::Allocated(allocation(0, 2))).unwrap());
        began.recv().unwrap();
        scope.spawn(|| done.send(converger.converge(&withdrawn)).unwrap());
        // Only a failing test waits for this long.
        let result = ended.recv_timeout(Duration::from_secs(30));
        drop(hold);
        assert!(matches!(result.unwrap().unwrap().steps[..], [Step::Detach { .. }]));
    });
}

#[test]
fn converge_all_returns_its_results_in_the_order_of_the_units() {
    let host = rabbit();
    let converger = Converger::new(host.clone());
    let wanted: Vec<_> = (0..40)
        .map(|index| match index % 3 {
            0 => Desired::Allocated(allocation(index, 1)),
            1 => Desired::Allocated(Allocation { capacity: 0, ..allocation(index, 1) }),
            _ => Desired::Inventory,
        })
        .collect();
    host.set_room(u64::MAX);
    let results = converger.converge_all(&wanted);
    assert_eq!(results.len(), wanted.len());
    for (index, result) in (0u32..).zip(results) {
        match index % 3 {
            1 => assert!(matches!(result, Err(ConvergeError::Rejected(_))), "{index}"),
            0 if index < 18 => assert!(!result.unwrap().steps.is_empty(), "{index}"),
            0 => {}
            _ => assert_eq!(result.unwrap().steps, []),
        }
    }
}

#[test]
fn the_converger_gives_up_on_a_host_that_undoes_every_step() {
    #[derive(Debug)]
    struct Forgetful;
    impl Host for Forgetful {
        fn observe(&self, _: &Desired) -> Result<Observed, ObserveError> {
            Ok(Observed::default())
        }
        fn apply(&self, _: &Step) -> Result<(), StepError> {
            Ok(())
        }
    }
    let error =
        Converger::new(Arc::new(Forgetful)).converge(&Desired::IndexTree(tree(1))).unwrap_err();
    assert!(matches!(error, ConvergeError::NotConverging(_)), "{error}");
    assert!(error.to_string().contains("create directory /mnt/nnf/wf-0"), "{error}");
}

/// A step that fails because another unit changed the node first is planned anew; the converger gives up only when this
/// happens without end.
#[test]
fn a_unit_observes_again_when_another_unit_changed_the_node_first() {
    /// Fails this number of steps as if another unit had taken the drive, and applies all later steps.
    #[derive(Debug)]
    struct Contested(FakeHost, std::sync::atomic::AtomicUsize);
    impl Host for Contested {
        fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
            self.0.observe(desired)
        }
        fn apply(&self, step: &Step) -> Result<(), StepError> {
            if self.1.load(Ordering::SeqCst) > 0 {
                self.1.fetch_sub(1, Ordering::SeqCst);
                return Err(StepError::Changed("the drive is full".into()));
            }
            self.0.apply(step)
        }
    }
    let contested = |times: usize| {
        let host = FakeHost::with_drives("rabbit-1".parse().unwrap(), roots(), 2, 1 << 30);
        Converger::new(Arc::new(Contested(host, times.into())))
    };
    let wanted = Desired::Allocated(allocation(0, 2));
    assert_eq!(contested(15).converge(&wanted).unwrap().steps.len(), 4);
    let error = contested(usize::MAX).converge(&wanted).unwrap_err();
    assert!(matches!(error, ConvergeError::Step(_)), "the converger gives up: {error}");
}

fn tree_at(workflow: u32) -> Desired {
    Desired::IndexTree(IndexTree { root: point(&format!("/mnt/nnf/wf-{workflow}")), ..tree(1) })
}

/// The place of a panic that affects only one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    InObservation,
    InStep,
    None,
}

#[derive(Debug)]
struct Defective(Arc<FakeHost>, std::sync::Mutex<Defect>);

impl Defective {
    fn has(&self, defect: Defect) -> bool {
        *self.1.lock().unwrap() == defect
    }
}

impl Host for Defective {
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
        assert!(
            !self.has(Defect::InObservation) || *desired != tree_at(6),
            "a bug in an observation"
        );
        self.0.observe(desired)
    }
    fn apply(&self, step: &Step) -> Result<(), StepError> {
        let hit = self.has(Defect::InStep) && step.to_string().contains("wf-6");
        assert!(!hit, "a bug in a step");
        self.0.apply(step)
    }
}

#[test]
fn a_panic_fails_only_its_unit_and_only_while_the_defect_exists() {
    let units = [5, 6, 7].map(tree_at);
    for (defect, panic) in
        [(Defect::InObservation, "a bug in an observation"), (Defect::InStep, "a bug in a step")]
    {
        let node = Arc::new(Defective(rabbit(), defect.into()));
        let converger = Converger::new(node.clone());
        for _ in 0..2 {
            let results = converger.converge_all(&units);
            assert!(results[0].is_ok() && results[2].is_ok(), "{results:?}");
            let error = results[1].as_ref().unwrap_err();
            assert!(matches!(error, ConvergeError::Panicked(_)), "{error:?}");
            assert!(error.to_string().contains(panic), "{error}");
        }
        if defect == Defect::InObservation {
            assert!(converger.observe(&units[1]).unwrap_err().to_string().contains(panic));
            let error = converger.plan(&units[1]).unwrap_err();
            assert!(matches!(error, ConvergeError::Observe(ObserveError::Panicked(_))), "{error}");
        }
        *node.1.lock().unwrap() = Defect::None;
        assert!(!converger.converge(&units[1]).unwrap().steps.is_empty());
        assert_eq!(converger.plan(&units[1]).unwrap(), []);
    }
}

/// A namespace of one of our allocations contains foreign data.
#[test]
fn a_foreign_signature_survives_every_unit_except_the_release_of_its_namespace() {
    let host = rabbit();
    let converger = Converger::new(host.clone());
    converger.converge(&Desired::Allocated(allocation(0, 0))).unwrap();
    let fs = file_system(&host, 0);
    let foreign = Signature::Foreign { kind: "ext4".into(), uuid: None };
    host.plant_signature(&fs.volume.namespaces[0], foreign.clone());
    for desired in [Desired::FileSystemReady(fs.clone()), Desired::Mounted(mount(&host, 0))] {
        assert!(matches!(converger.converge(&desired), Err(ConvergeError::Rejected(_))));
    }
    converger.converge(&Desired::FileSystemGone(fs.clone())).unwrap();
    let signature = host.observe(&Desired::FileSystemReady(fs)).unwrap().volume.unwrap().signature;
    assert_eq!(signature, Some(foreign));
}

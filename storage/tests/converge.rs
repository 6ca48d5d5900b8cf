//! From any state, whatever step fails and however, a few rounds reach the empty plan, and nobody else's things change.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use proptest::prelude::*;
use storage::{
    ConvergeError, Converger, Desired, Host, Observed, Step,
    desired::{
        Access, Allocation, AllocationId, AllowedRoots, Endpoint, FileSystem, FileSystemId,
        FileSystemKind, Hook, HookId, HookScope, IndexLink, IndexTree, LvmLines, Mount, MountHooks,
        MountPoint, MountSource, NamespaceId, Owner, Spread, Volume, VolumeLayer,
    },
    fake::{FakeHost, Fault},
    host::{ObserveError, StepError},
    observed::{NamespaceOwner, Signature},
    template::SiteCommand,
};

const PLACES: u32 = 3;

/// The place whose mount point may be somebody else's.
const OCCUPIED: u32 = 2;

fn roots() -> AllowedRoots {
    AllowedRoots::new(["/mnt/nnf".into(), "/mnt/temp".into()]).unwrap()
}

fn point(path: &str) -> MountPoint {
    MountPoint::parse(path, &roots()).unwrap()
}

fn command(line: &str) -> Option<SiteCommand> {
    SiteCommand::new("test", line, BTreeMap::new()).unwrap()
}

fn hooks(scope: &HookScope, phase: &'static str) -> Vec<Hook> {
    let hook = |place| Hook {
        id: HookId { scope: scope.clone(), phase, place },
        command: command("true").unwrap(),
    };
    vec![hook(0), hook(1)]
}

fn allocation(index: u32, computes: u8) -> Allocation {
    let owner = "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap();
    let computes = (0..computes).map(|k| Access {
        endpoint: Endpoint::Compute(k),
        node: format!("compute-{k}").parse().unwrap(),
    });
    let rabbit = Access { endpoint: Endpoint::Rabbit, node: "rabbit-1".parse().unwrap() };
    let id = AllocationId { owner, index };
    let spread = Spread::new(1 + u8::try_from(index % 2).unwrap(), 1).unwrap();
    Allocation::new(id, 100 << 20, spread, computes.chain([rabbit]).collect())
}

/// Every other place has a logical volume.
fn layer(index: u32) -> VolumeLayer {
    if index.is_multiple_of(2) {
        return VolumeLayer::Plain;
    }
    let line = || command("$DEVICE_LIST");
    VolumeLayer::Lvm(Box::new(LvmLines {
        pv_create: line(),
        pv_remove: line(),
        vg_create: line(),
        vg_remove: line(),
        lv_create: line(),
        lv_remove: line(),
        activate: line(),
        deactivate: line(),
        lock_start: line(),
        lock_stop: line(),
        leaves_lock_space: true,
        ..LvmLines::default()
    }))
}

/// What a controller would ask for, given what exists.
fn file_system(host: &FakeHost, index: u32) -> FileSystem {
    let observed = host.observe(&Desired::Inventory).unwrap();
    let owner = NamespaceOwner::Ours(allocation(index, 0).id);
    let found = observed.namespaces.into_iter().find(|namespace| namespace.owner == owner);
    // Objects outlive what they name.
    let gone = || NamespaceId::parse("nqn.2026-01.io.warren:fake:gone", "1").unwrap();
    let namespace = found.map_or_else(gone, |namespace| namespace.id);
    let uid = "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a2".parse().unwrap();
    let id = FileSystemId::derive(uid, "rabbit-1", "storage", index);
    let scope = HookScope::file_system(&id);
    FileSystem {
        id,
        kind: FileSystemKind::Xfs,
        volume: Volume {
            group: format!("vg-{index}"),
            logical: "lv".into(),
            namespaces: vec![namespace],
            layer: layer(index),
        },
        mkfs: command("$DEVICE"),
        post_activate: hooks(&scope, "postActivate"),
        post_setup: hooks(&scope, "postSetup"),
        pre_teardown: hooks(&scope, "preTeardown"),
        pre_deactivate: hooks(&scope, "preDeactivate"),
        post_teardown: hooks(&scope, "postTeardown"),
        mount: command("$DEVICE $MOUNT_PATH"),
        temporary: point(&format!("/mnt/temp/storage-{index}")),
    }
}

fn mount(host: &FakeHost, index: u32) -> Mount {
    let fs = file_system(host, index);
    let scope =
        HookScope::mount("b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a3".parse().unwrap(), index as usize);
    let hooks = MountHooks {
        pre_activate: hooks(&scope, "preActivate"),
        post_mount: hooks(&scope, "postMount"),
        pre_unmount: hooks(&scope, "preUnmount"),
        post_deactivate: hooks(&scope, "postDeactivate"),
        ..MountHooks::default()
    };
    Mount {
        scope,
        target: point(&format!("/mnt/nnf/wf-0/node-{index}")),
        kind: FileSystemKind::Xfs,
        source: MountSource::Volume { volume: fs.volume, id: fs.id },
        mount: command("$DEVICE $MOUNT_PATH"),
        unmount: command("$MOUNT_PATH"),
        owner: Some(Owner { uid: 1, gid: 2 }),
        file: None,
        hooks,
    }
}

fn tree(links: u32) -> IndexTree {
    let link = |k| IndexLink::new(&format!("compute-{k}"), &format!("node-{k}")).unwrap();
    IndexTree { root: point("/mnt/nnf/wf-0"), links: (0..links).map(link).collect() }
}

#[derive(Debug, Clone)]
enum Wish {
    Allocated(u32, u8),
    Released(u32),
    Ready(u32),
    Gone(u32),
    Mounted(u32),
    Unmounted(u32),
    Tree(u32),
    NoTree,
    OnlyMounts(Vec<u32>),
    Reboot,
    /// Somebody mounts over a place, or over them all.
    Cover(u32),
    /// And takes it away again.
    Lift(u32),
}

fn wish() -> impl Strategy<Value = Wish> {
    let place = 0..PLACES;
    prop_oneof![
        3 => (place.clone(), 0..3u8).prop_map(|(place, computes)| Wish::Allocated(place, computes)),
        1 => place.clone().prop_map(Wish::Released),
        3 => place.clone().prop_map(Wish::Ready),
        1 => place.clone().prop_map(Wish::Gone),
        3 => place.clone().prop_map(Wish::Mounted),
        2 => place.clone().prop_map(Wish::Unmounted),
        1 => (0..PLACES).prop_map(Wish::Tree),
        1 => Just(Wish::NoTree),
        1 => prop::collection::vec(place, 0..3).prop_map(Wish::OnlyMounts),
        1 => Just(Wish::Reboot),
        1 => (0..=PLACES).prop_map(Wish::Cover),
        1 => (0..=PLACES).prop_map(Wish::Lift),
    ]
}

fn fault() -> impl Strategy<Value = Option<(usize, Fault)>> {
    let kind = prop_oneof![Just(Fault::Before), Just(Fault::Halfway), Just(Fault::After)];
    prop::option::weighted(0.8, (0..8usize, kind))
}

fn desired(host: &FakeHost, wish: &Wish) -> Option<Desired> {
    Some(match wish {
        Wish::Allocated(index, computes) => Desired::Allocated(allocation(*index, *computes)),
        Wish::Released(index) => Desired::Released(allocation(*index, 0).id),
        Wish::Ready(index) => Desired::FileSystemReady(file_system(host, *index)),
        Wish::Gone(index) => Desired::FileSystemGone(file_system(host, *index)),
        Wish::Mounted(index) => Desired::Mounted(mount(host, *index)),
        Wish::Unmounted(index) => Desired::Unmounted(mount(host, *index)),
        Wish::Tree(links) => Desired::IndexTree(tree(*links)),
        Wish::NoTree => Desired::NoIndexTree(tree(0)),
        Wish::OnlyMounts(keep) => {
            Desired::OnlyMounts(keep.iter().map(|k| mount(host, *k).target).collect())
        }
        Wish::Reboot => {
            host.reboot();
            return None;
        }
        Wish::Cover(index) => {
            host.plant_mount(&covered(host, *index), "tmpfs", "tmpfs");
            return None;
        }
        Wish::Lift(index) => {
            host.lift_mounts(&covered(host, *index));
            return None;
        }
    })
}

fn covered(host: &FakeHost, index: u32) -> MountPoint {
    if index < PLACES { mount(host, index).target } else { tree(0).root }
}

fn rabbit() -> Arc<FakeHost> {
    let host = FakeHost::with_drives("rabbit-1".parse().unwrap(), roots(), 2, 1 << 30);
    host.plant_namespace(10 << 20);
    host.plant_mount(&point("/mnt/nnf/admin"), "server:/export", "nfs");
    host.plant_link(&point("/mnt/nnf/wf-1/link"), "/etc");
    host.plant_file(&point("/mnt/nnf/notes"));
    Arc::new(host)
}

/// Nothing of ours can be done while it is mounted, and that is told.
fn is_busy(error: &ConvergeError) -> bool {
    matches!(error, ConvergeError::Step(failed)
        if matches!(&failed.source, StepError::System { source, .. } if source.raw_os_error() == Some(libc::EBUSY)))
}

/// A desire that failed once is as desired after another call, or is refused for a reason that stays.
fn settles(converger: &Converger, desired: &Desired) -> Result<(), TestCaseError> {
    match converger.converge(desired) {
        Ok(_) => prop_assert_eq!(converger.plan(desired).unwrap(), vec![]),
        Err(ConvergeError::Rejected(_)) => {}
        Err(error) if is_busy(&error) => {}
        Err(error) => prop_assert!(false, "{desired:?}: {error:?}"),
    }
    Ok(())
}

/// Everything is wanted gone, in the order in which a controller takes it down.
fn take_down(host: &Arc<FakeHost>, converger: &Converger) -> Result<(), TestCaseError> {
    for index in 0..PLACES {
        for wish in [Wish::Unmounted(index), Wish::Gone(index), Wish::Released(index)] {
            let Some(desired) = desired(host, &wish) else { continue };
            if let Err(error) = converger.converge(&desired) {
                prop_assert!(false, "{wish:?}: {error:?}");
            }
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
    fn any_failure_is_mended_and_nobody_elses_things_change(
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
                // Whether it strikes depends on how many steps there are.
                let _ = converger.converge(&desired);
                host.fail(usize::MAX, Fault::Before);
            }
            settles(&converger, &desired)?;
            prop_assert_eq!(&host.foreign(), &foreign);
        }
        // What covers ours is told as long as it does.
        (0..=PLACES).for_each(|index| host.lift_mounts(&covered(&host, index)));
        let last = mount(&host, OCCUPIED);
        let seen = host.observe(&Desired::Unmounted(last.clone())).unwrap().target.unwrap();
        if occupied && seen.mounted.is_none() {
            host.plant_mount(&last.target, "tmpfs", "tmpfs");
        }
        let foreign = host.foreign();
        take_down(&host, &converger)?;
        prop_assert!(host.is_clean(), "{:?}", host);
        prop_assert_eq!(host.foreign(), foreign);
    }
}

/// A host that notices when two threads are in it for one group.
#[derive(Debug)]
struct Alone {
    host: FakeHost,
    inside: AtomicBool,
}

impl Alone {
    fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        assert!(!self.inside.swap(true, Ordering::SeqCst), "two units of one group at once");
        let result = work();
        std::thread::yield_now();
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
    std::thread::scope(|scope| {
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

#[test]
fn results_come_in_the_order_asked() {
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
fn a_host_that_undoes_every_step_ends_the_rounds() {
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
    assert!(matches!(error, ConvergeError::NotConverging { .. }), "{error}");
    assert!(error.to_string().contains("create directory /mnt/nnf/wf-0"), "{error}");
}

/// As many units as drives, and each drive has room for one: all want the freest at once, and all get one.
#[test]
fn a_unit_that_is_outrun_looks_again_until_it_has_a_drive() {
    /// Lets a step through only after others took its drive this often.
    #[derive(Debug)]
    struct Contested(FakeHost, std::sync::atomic::AtomicUsize);
    impl Host for Contested {
        fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
            self.0.observe(desired)
        }
        fn apply(&self, step: &Step) -> Result<(), StepError> {
            if self.1.load(Ordering::SeqCst) > 0 {
                self.1.fetch_sub(1, Ordering::SeqCst);
                return Err(StepError::Changed("the drive is full by now".into()));
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
    assert!(matches!(error, ConvergeError::Step(_)), "it ends: {error}");
}

/// Foreign data on a namespace that an allocation of ours owns.
#[test]
fn a_foreign_signature_survives_everything_but_release() {
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
    let seen = host.observe(&Desired::FileSystemReady(fs)).unwrap().volume.unwrap().signature;
    assert_eq!(seen, Some(foreign));
}

//! Tests the life of a Lustre target on a node in memory: after any failure of any step, the next call converges.
//!
//! The node in memory refuses the commands that ZFS and Lustre would refuse according to their manual pages. These
//! tests run no Lustre server.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{collections::BTreeMap, sync::Arc};

use storage::{
    ConvergeError, Converger, Desired, Host, Rejection, Step,
    desired::{
        Access, Allocation, AllocationId, AllowedRoots, Dataset, Endpoint, FileSystemId, Hook,
        HookId, HookPoint, LustreClient, LustreTarget, MountPoint, NamespaceId, ObjectUid, Spread,
        TargetLines,
    },
    fake::{FakeHost, Fault},
    observed::NamespaceOwner,
    template::SiteCommand,
};

const POOL: &str = "pool-a4f0c1de-5d7f-4c1b-9f6e-0c0e7d0f8a11-ost-0";
const FAULTS: [Fault; 3] = [Fault::Before, Fault::Halfway, Fault::After];

fn roots() -> AllowedRoots {
    AllowedRoots::new(["/mnt/nnf".into(), "/mnt/temp".into()]).unwrap()
}

fn point(path: &str) -> MountPoint {
    MountPoint::parse(path, &roots()).unwrap()
}

fn command(line: &str) -> Option<SiteCommand> {
    SiteCommand::new("test", line, BTreeMap::new()).unwrap()
}

fn uid() -> ObjectUid {
    "a4f0c1de-5d7f-4c1b-9f6e-0c0e7d0f8a11".parse().unwrap()
}

fn allocation() -> Allocation {
    let rabbit = Access { endpoint: Endpoint::Rabbit, node: "rabbit-1".parse().unwrap() };
    let id = AllocationId { owner: uid(), index: 0 };
    Allocation::new(id, 100 << 20, Spread::new(2, 2).unwrap(), [rabbit].into())
}

fn namespaces(host: &FakeHost) -> Vec<NamespaceId> {
    let observed = host.observe(&Desired::Inventory).unwrap().namespaces;
    let ours = NamespaceOwner::Ours(allocation().id);
    observed
        .into_iter()
        .filter(|namespace| namespace.owner == ours)
        .map(|namespace| namespace.id)
        .collect()
}

const EVERY: [HookPoint; 5] = [
    HookPoint::PostActivate,
    HookPoint::PostSetup,
    HookPoint::PreTeardown,
    HookPoint::PreDeactivate,
    HookPoint::PostTeardown,
];

/// Returns the first object target of a file system, with every hook that a profile can have.
fn target(host: &FakeHost) -> LustreTarget {
    let id = FileSystemId::derive(uid(), "rabbit-1", "storage", 0);
    let scope = storage::desired::HookScope::file_system(&id);
    let hook = |phase| {
        let id = HookId { scope: scope.clone(), phase, index: 0 };
        Hook { id, command: command("true").unwrap() }
    };
    LustreTarget {
        id,
        dataset: Dataset::new(POOL, "ost").unwrap(),
        namespaces: namespaces(host),
        made_for: Some(allocation().id),
        target: point("/mnt/nnf/a-ost-0"),
        lines: TargetLines {
            create: command(&format!("{POOL} $DEVICE_LIST")),
            destroy: command(POOL),
            replace: command(&format!("{POOL} $OLD_DEVICE $NEW_DEVICE")),
            mkfs: command(&format!("--ost {POOL}/ost")),
            mount: command(&format!("{POOL}/ost /mnt/nnf/a-ost-0")),
            unmount: command("/mnt/nnf/a-ost-0"),
        },
        hooks: EVERY.map(hook).to_vec(),
        client: Some(LustreClient {
            source: "10.0.0.1@tcp:/aaaaaaaa".into(),
            temporary: point("/mnt/temp/storage-0"),
            mount: command("10.0.0.1@tcp:/aaaaaaaa /mnt/temp/storage-0"),
        }),
    }
}

fn rabbit(drives: u16) -> (Arc<FakeHost>, Converger) {
    let node = "rabbit-1".parse().unwrap();
    let host = Arc::new(FakeHost::with_drives(node, roots(), drives, 1 << 30));
    host.plant_mount(&point("/mnt/nnf/admin"), "server:/export", "nfs");
    let converger = Converger::new(host.clone());
    converger.converge(&Desired::Allocated(allocation())).unwrap();
    (host, converger)
}

/// Restarts the node, and attaches the allocation's namespaces again.
fn restart(host: &FakeHost, converger: &Converger) {
    host.reboot();
    converger.converge(&Desired::Allocated(allocation())).unwrap();
}

fn settle(converger: &Converger, desired: &Desired) -> Vec<Step> {
    let steps = converger.converge(desired).unwrap().steps;
    assert_eq!(converger.plan(desired).unwrap(), [], "{desired:?}");
    steps
}

fn kinds(steps: &[Step]) -> Vec<&'static str> {
    steps.iter().map(Step::kind).collect()
}

fn hooks_of(steps: &[Step], wanted: HookPoint) -> usize {
    let is = |step: &&Step| matches!(step, Step::RunHook { id, .. } if id.phase == wanted);
    steps.iter().filter(is).count()
}

#[test]
fn a_target_is_created_imported_after_a_restart_and_removed() {
    let (host, converger) = rabbit(2);
    let target = target(&host);
    let (ready, gone) = (Desired::TargetReady(target.clone()), Desired::TargetGone(target));
    let steps = settle(&converger, &ready);
    assert_eq!(
        kinds(&steps),
        [
            "zpool-create",
            "open-hooks",
            "mkfs-target",
            "create-mount-point",
            "mount",
            "hook",
            "create-mount-point",
            "mount",
            "hook",
            "unmount",
            "remove-mount-point"
        ]
    );
    assert!(settle(&converger, &ready).is_empty());
    restart(&host, &converger);
    assert_eq!(kinds(&settle(&converger, &ready)), ["zpool-import", "mount"]);
    let steps = settle(&converger, &gone);
    assert_eq!(
        kinds(&steps),
        [
            "create-mount-point",
            "mount",
            "hook",
            "unmount",
            "remove-mount-point",
            "hook",
            "unmount",
            "remove-mount-point",
            "zpool-destroy",
            "hook",
            "forget-hooks"
        ]
    );
    assert!(settle(&converger, &gone).is_empty());
    converger.converge(&Desired::Released(allocation().id)).unwrap();
    assert!(host.is_clean(), "{host:?}");
}

/// Runs a target's whole life for each step that can fail and each way to fail, with and without a restart of the
/// node after the failure.
#[test]
fn a_target_converges_after_a_failure_at_any_step() {
    let mut struck = 0;
    for (at, fault, restarts) in (0..22)
        .flat_map(|at| FAULTS.into_iter().map(move |fault| (at, fault)))
        .flat_map(|(at, fault)| [false, true].map(|restarts| (at, fault, restarts)))
    {
        let (host, converger) = rabbit(2);
        let foreign = host.foreign();
        let target = target(&host);
        host.fail(at, fault);
        for desired in [Desired::TargetReady(target.clone()), Desired::TargetGone(target)] {
            if converger.converge(&desired).is_err() {
                struck += 1;
                if restarts {
                    restart(&host, &converger);
                }
            }
            settle(&converger, &desired);
        }
        let applied = host.applied();
        for phase in EVERY {
            // A hook runs once; or twice, if the result of its first run was lost.
            assert!((1..=2).contains(&hooks_of(&applied, phase)), "{phase:?} at {at} {fault:?}");
        }
        converger.converge(&Desired::Released(allocation().id)).unwrap();
        assert!(host.is_clean(), "{at} {fault:?} {restarts}: {host:?}");
        assert_eq!(host.foreign(), foreign, "{at} {fault:?} {restarts}");
    }
    assert_eq!(struck, 22 * 6, "every injected failure occurs");
}

/// After each step of its creation, a target that is not complete yet is torn down.
#[test]
fn a_target_whose_creation_failed_at_any_step_is_torn_down() {
    for (at, fault) in (0..11).flat_map(|at| FAULTS.map(|fault| (at, fault))) {
        let (host, converger) = rabbit(2);
        let target = target(&host);
        host.fail(at, fault);
        assert!(converger.converge(&Desired::TargetReady(target.clone())).is_err());
        settle(&converger, &Desired::TargetGone(target));
        converger.converge(&Desired::Released(allocation().id)).unwrap();
        assert!(host.is_clean(), "{at} {fault:?}: {host:?}");
    }
}

fn rejection(converger: &Converger, desired: &Desired) -> Rejection {
    match converger.converge(desired) {
        Err(ConvergeError::Rejected(rejection)) => rejection,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pool_on_foreign_devices_or_with_another_name_is_rejected_and_does_not_change() {
    let (host, converger) = rabbit(2);
    let target = target(&host);
    let theirs = NamespaceId::parse("nqn.2026-01.io.warren:fake:theirs", "1").unwrap();
    let both = [Desired::TargetReady(target.clone()), Desired::TargetGone(target.clone())];
    host.plant_pool(POOL, &[theirs]);
    for desired in &both {
        let steps = host.applied().len();
        let rejection = rejection(&converger, desired);
        assert!(
            matches!(&rejection, Rejection::ForeignPool { pool, .. } if pool == POOL),
            "{rejection}"
        );
        assert_eq!(host.applied().len(), steps);
    }
    host.lift_pool(POOL);
    host.plant_pool("tank", &target.namespaces);
    restart(&host, &converger);
    for desired in &both {
        let rejection = rejection(&converger, desired);
        assert!(
            matches!(&rejection, Rejection::OtherPool { found, .. } if found == "tank"),
            "{rejection}"
        );
    }
    host.lift_pool("tank");
    settle(&converger, &both[0]);
    settle(&converger, &both[1]);
}

/// A rabbit may get the programs and modules of ZFS only after its agent has started.
#[test]
fn no_pool_is_created_when_the_search_for_pools_failed() {
    let (host, converger) = rabbit(2);
    let target = target(&host);
    let (ready, gone) = (Desired::TargetReady(target.clone()), Desired::TargetGone(target));
    settle(&converger, &ready);
    restart(&host, &converger);
    host.lack_zfs(true);
    let steps = host.applied().len();
    for desired in [&ready, &gone] {
        let error = format!("{:?}", converger.converge(desired).unwrap_err());
        assert!(error.contains("zpool: command not found"), "{error}");
    }
    assert_eq!(host.applied().len(), steps, "the hooks need the target before its removal");
    host.lack_zfs(false);
    assert_eq!(kinds(&settle(&converger, &ready)), ["zpool-import", "mount"]);
    settle(&converger, &gone);
    host.lack_zfs(true);
    assert!(settle(&converger, &gone).is_empty(), "nothing is left that a search could find");
}

/// A drive is replaced by another drive. The pool continues to serve, and the lost device is replaced by a namespace
/// on the new drive.
#[test]
fn a_lost_device_of_a_pool_is_replaced_by_a_namespace_on_another_drive_while_the_target_serves() {
    let (host, converger) = rabbit(3);
    let before = target(&host);
    settle(&converger, &Desired::TargetReady(before.clone()));
    let slot = before.namespaces[0].subsystem.to_string();
    let observed = host.observe(&Desired::Inventory).unwrap();
    let lost = observed.drives.iter().find(|drive| drive.nqn.to_string() == slot).unwrap().slot;
    host.swap_drive(lost);
    assert!(settle(&converger, &Desired::TargetReady(before.clone())).is_empty());
    let reported =
        observed.namespaces.iter().filter(|namespace| before.namespaces.contains(&namespace.id));
    let reported = reported.map(|namespace| storage::desired::Reported {
        id: namespace.id.clone(),
        size: namespace.size,
        contested: false,
    });
    let wanted = Allocation { reported: reported.collect(), ..allocation() };
    converger.converge(&Desired::Allocated(wanted)).unwrap();
    let after = LustreTarget { namespaces: namespaces(&host), ..before.clone() };
    assert_ne!(after.namespaces, before.namespaces);
    let ready = Desired::TargetReady(after.clone());
    assert_eq!(kinds(&settle(&converger, &ready)), ["zpool-replace"]);
    let pool = host.observe(&ready).unwrap().zpool.unwrap().imported.unwrap();
    assert!(!pool.is_degraded(), "{pool:?}");
    settle(&converger, &Desired::TargetGone(after));
}

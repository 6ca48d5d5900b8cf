use super::*;
use crate::{
    desired::{Dataset, LustreClient, LustreTarget, TargetLines},
    observed::{DatasetState, FoundPool, PoolHealth, PoolState, Vdev, VdevDevice, Zpool},
};

const POOL: &str = "pool-a-ost-0";
const TARGET: &str = "/mnt/nnf/a-ost-0";

fn dataset(pool: &str) -> Dataset {
    Dataset::new(pool, "ost").unwrap()
}

fn device(nsid: u32) -> BlockDevice {
    BlockDevice {
        namespace: id(nsid),
        path: format!("/dev/nvme0n{nsid}").into(),
        number: DeviceNumber { major: 259, minor: nsid },
    }
}

fn hook(phase: HookPoint, line: &str) -> Hook {
    let scope = HookScope::file_system(&fs_id(0));
    Hook { id: HookId { scope, phase, index: 0 }, command: command(line).unwrap() }
}

/// Returns a target on two namespaces, with the lines of the default profile.
fn target() -> LustreTarget {
    LustreTarget {
        id: fs_id(0),
        dataset: dataset(POOL),
        namespaces: vec![id(1), id(2)],
        made_for: None,
        target: point(TARGET),
        lines: TargetLines {
            create: command(&format!("-O canmount=off -o cachefile=none {POOL} $DEVICE_LIST")),
            destroy: command(POOL),
            replace: command(&format!("{POOL} $OLD_DEVICE $NEW_DEVICE")),
            mkfs: command(&format!("--ost --index=0 {POOL}/ost")),
            mount: command(&format!("{POOL}/ost {TARGET}")),
            unmount: command(TARGET),
        },
        hooks: vec![
            hook(HookPoint::PostActivate, &format!("mountpoint {TARGET}")),
            hook(HookPoint::PreDeactivate, "sync"),
        ],
        client: None,
    }
}

fn with_client() -> LustreTarget {
    let client = LustreClient {
        source: "10.0.0.1@tcp:/aaaaaaaa".into(),
        temporary: point("/mnt/temp/ost-0"),
        mount: command("10.0.0.1@tcp:/aaaaaaaa /mnt/temp/ost-0"),
    };
    let mut target = LustreTarget { client: Some(client), ..target() };
    target.hooks.extend([
        hook(HookPoint::PostSetup, "lfs setstripe /mnt/temp/ost-0"),
        hook(HookPoint::PreTeardown, "ls /mnt/temp/ost-0"),
        hook(HookPoint::PostTeardown, "true"),
    ]);
    target
}

fn vdev(name: &str, state: &str, device: VdevDevice) -> Vdev {
    Vdev { name: name.into(), state: state.into(), device }
}

fn ours(nsid: u32) -> Vdev {
    vdev(&format!("/dev/nvme0n{nsid}p1"), "ONLINE", VdevDevice::Namespace(id(nsid)))
}

fn pool(vdevs: Vec<Vdev>, dataset: DatasetState) -> Zpool {
    Zpool { name: POOL.into(), health: PoolHealth::Online, vdevs, resilvered: None, dataset }
}

fn observation(imported: Option<Zpool>) -> Observed {
    let zpool = PoolState { devices: vec![device(1), device(2)], imported, ..PoolState::default() };
    let empty = Some(TargetState::default());
    Observed { zpool: Some(zpool), target: empty.clone(), temporary: empty, ..Observed::default() }
}

fn found(health: PoolHealth, name: &str) -> Observed {
    let mut observed = observation(None);
    let found = vec![FoundPool { name: name.into(), health }];
    observed.zpool.as_mut().unwrap().found = found;
    observed
}

fn whole() -> Zpool {
    pool(vec![ours(1), ours(2)], DatasetState::Whole)
}

fn lustre(source: &str) -> TargetState {
    let thing = MountedThing {
        device: DeviceNumber { major: 0, minor: 50 },
        source: source.into(),
        kind: "lustre".into(),
        root: "/".into(),
        superblock: Superblock::Unknown,
        namespace: None,
    };
    let path = PathState::Directory { empty: false };
    TargetState { path, mounted: Some(thing), ..TargetState::default() }
}

fn all_ran(target: &LustreTarget, phases: &[HookPoint]) -> BTreeSet<HookId> {
    phases.iter().map(|phase| HookId { scope: target.scope(), phase: *phase, index: 0 }).collect()
}

/// Returns a complete target whose set-up hooks have run.
fn serving(target: &LustreTarget) -> Observed {
    Observed {
        target: Some(lustre(&format!("{POOL}/ost"))),
        hooks: all_ran(target, &[HookPoint::PostActivate, HookPoint::PostSetup]),
        hooks_open: true,
        ..observation(Some(whole()))
    }
}

fn steps_to_ready(target: &LustreTarget, observed: &Observed) -> Vec<String> {
    lines(plan(&Desired::TargetReady(target.clone()), observed))
}

fn steps_to_gone(target: &LustreTarget, observed: &Observed) -> Vec<String> {
    lines(plan(&Desired::TargetGone(target.clone()), observed))
}

fn refused(target: &LustreTarget, observed: &Observed) -> String {
    let rejection = plan(&Desired::TargetReady(target.clone()), observed).unwrap_err();
    rejection.to_string()
}

#[test]
fn a_target_is_created_with_its_hooks_in_order() {
    let target = with_client();
    assert_eq!(
        steps_to_ready(&target, &observation(None)),
        [format!(
            "make zpool {POOL}: -O canmount=off -o cachefile=none {POOL} /dev/nvme0n1 /dev/nvme0n2"
        )]
    );
    let empty = observation(Some(pool(vec![ours(1), ours(2)], DatasetState::Absent)));
    assert_eq!(
        steps_to_ready(&target, &empty),
        [
            format!("open hook records {}", target.scope().as_str()),
            format!("make Lustre target {POOL}/ost: --ost --index=0 {POOL}/ost"),
            format!("create mount point {TARGET}"),
            format!("mount lustre {POOL}/ost on {TARGET}: {POOL}/ost {TARGET}"),
            format!("run hook postActivate[0]: mountpoint {TARGET}"),
            "create mount point /mnt/temp/ost-0".into(),
            "mount lustre 10.0.0.1@tcp:/aaaaaaaa on /mnt/temp/ost-0: 10.0.0.1@tcp:/aaaaaaaa /mnt/temp/ost-0"
                .into(),
        ]
    );
    let mut shown = serving(&target);
    shown.hooks = all_ran(&target, &[HookPoint::PostActivate]);
    shown.temporary = Some(lustre("10.0.0.1@tcp:/aaaaaaaa"));
    assert_eq!(
        steps_to_ready(&target, &shown),
        [
            "run hook postSetup[0]: lfs setstripe /mnt/temp/ost-0",
            "unmount /mnt/temp/ost-0: /mnt/temp/ost-0",
            "remove mount point /mnt/temp/ost-0",
        ]
    );
    assert!(steps_to_ready(&target, &serving(&target)).is_empty());
}

#[test]
fn an_unfinished_target_is_made_anew_and_a_complete_target_stays() {
    let half = observation(Some(pool(vec![ours(1), ours(2)], DatasetState::HalfMade)));
    let steps = steps_to_ready(&target(), &half);
    assert_eq!(steps[1], format!("destroy unfinished Lustre target {POOL}/ost: {POOL}/ost"));
    assert!(steps[2].starts_with("make Lustre target"), "{steps:?}");
    let steps = steps_to_ready(&target(), &observation(Some(whole())));
    assert!(!steps.iter().any(|step| step.contains("Lustre target")), "{steps:?}");
    let mut unformatted = target();
    unformatted.lines.mkfs = None;
    assert!(steps_to_ready(&unformatted, &half).iter().all(|step| !step.contains("Lustre target")));
}

#[test]
fn after_a_restart_the_pool_is_imported_and_mounted_and_no_hook_runs_again() {
    let target = with_client();
    let online = found(PoolHealth::Online, POOL);
    assert_eq!(steps_to_ready(&target, &online), [format!("import zpool {POOL}: {POOL}")]);
    let after = Observed { target: Some(TargetState::default()), ..serving(&target) };
    assert_eq!(
        steps_to_ready(&target, &after),
        [
            format!("create mount point {TARGET}"),
            format!("mount lustre {POOL}/ost on {TARGET}: {POOL}/ost {TARGET}")
        ]
    );
}

#[test]
fn a_target_is_torn_down_with_its_hooks_in_order() {
    let target = with_client();
    let mount = "mount lustre 10.0.0.1@tcp:/aaaaaaaa on /mnt/temp/ost-0: 10.0.0.1@tcp:/aaaaaaaa /mnt/temp/ost-0";
    assert_eq!(
        steps_to_gone(&target, &serving(&target)),
        ["create mount point /mnt/temp/ost-0", mount]
    );
    let mut shown = serving(&target);
    shown.temporary = Some(lustre("10.0.0.1@tcp:/aaaaaaaa"));
    assert_eq!(
        steps_to_gone(&target, &shown),
        [
            "run hook preTeardown[0]: ls /mnt/temp/ost-0".into(),
            "unmount /mnt/temp/ost-0: /mnt/temp/ost-0".into(),
            "remove mount point /mnt/temp/ost-0".into(),
            "run hook preDeactivate[0]: sync".into(),
            format!("unmount {TARGET}: {TARGET}"),
            format!("remove mount point {TARGET}"),
            format!("destroy zpool {POOL}: {POOL}"),
            "run hook postTeardown[0]: true".into(),
            format!("forget hook records {}", target.scope().as_str()),
        ]
    );
    assert!(steps_to_gone(&target, &observation(None)).is_empty());
}

/// After a restart of the node, the target is mounted again only for hooks that still need the mount.
#[test]
fn a_target_is_mounted_again_for_tear_down_hooks_after_a_restart() {
    let target = target();
    let open = Observed { hooks_open: true, ..observation(Some(whole())) };
    let again = format!("mount lustre {POOL}/ost on {TARGET}: {POOL}/ost {TARGET}");
    assert_eq!(steps_to_gone(&target, &open)[1], again);
    let none = Observed { hooks_open: true, ..observation(None) };
    assert_eq!(
        steps_to_gone(&target, &none),
        [format!("forget hook records {}", target.scope().as_str())]
    );
    assert_eq!(
        steps_to_gone(&target, &found(PoolHealth::Online, POOL)),
        [format!("import zpool {POOL}: {POOL}")]
    );
    assert!(steps_to_gone(&target, &found(PoolHealth::Broken("UNAVAIL".into()), POOL)).is_empty());
}

/// Some sites unmount and destroy a target in their hooks.
#[test]
fn a_target_stays_when_the_site_has_no_unmount_and_no_destroy_line() {
    let mut target = target();
    (target.lines.unmount, target.lines.destroy) = (None, None);
    let mut serving = serving(&target);
    serving.hooks_open = false;
    assert!(steps_to_gone(&target, &serving).is_empty());
}

#[test]
fn a_pool_with_other_devices_is_left_alone() {
    let strange = vdev("/dev/sda1", "ONLINE", VdevDevice::Foreign);
    let gone = || vdev("12728", "UNAVAIL", VdevDevice::Missing);
    let text = |vdevs| {
        let observed = observation(Some(pool(vdevs, DatasetState::Whole)));
        let rejection = plan(&Desired::TargetGone(target()), &observed).unwrap_err();
        assert_eq!(rejection.class(), RejectionClass::Foreign);
        assert_eq!(refused(&target(), &observed), rejection.to_string());
        rejection.to_string()
    };
    let message = text(vec![ours(1), ours(2), strange]);
    assert!(message.contains(POOL) && message.contains("it lies on /dev/sda1"), "{message}");
    assert!(text(vec![ours(1)]).contains("it lacks /dev/nvme0n2"));
    assert!(text(vec![gone(), gone()]).contains("does not consist of exactly"));
    assert!(text(vec![]).contains("/dev/nvme0n1, /dev/nvme0n2"));

    let message = refused(&target(), &found(PoolHealth::Online, "tank"));
    assert!(message.contains("carry zpool tank") && message.contains(POOL), "{message}");
    let mut twice = found(PoolHealth::Online, POOL);
    let pools = &mut twice.zpool.as_mut().unwrap().found;
    pools.push(pools[0].clone());
    assert!(refused(&target(), &twice).contains("2 pools called"));
}

#[test]
fn a_pool_is_created_only_on_all_its_devices_and_a_broken_pool_is_rejected() {
    let mut lacking = observation(None);
    let state = lacking.zpool.as_mut().unwrap();
    (state.devices, state.missing) = (vec![device(1)], vec![id(2)]);
    let rejection = plan(&Desired::TargetReady(target()), &lacking).unwrap_err();
    assert!(matches!(rejection, Rejection::NoDevice { .. }), "{rejection}");
    let broken = PoolHealth::Broken("SUSPENDED".into());
    assert!(
        refused(&target(), &found(broken.clone(), POOL))
            .contains("is SUSPENDED: bring its drives back")
    );
    let broken = Zpool { health: broken, ..whole() };
    assert!(refused(&target(), &observation(Some(broken))).contains("SUSPENDED"));
}

/// All drives of the pool are absent, so nothing shows who owns the pool: the agent waits for the drives and destroys
/// nothing.
#[test]
fn a_pool_that_has_lost_all_devices_is_broken_and_not_foreign() {
    for (health, message) in [
        (PoolHealth::Broken("SUSPENDED".into()), "is SUSPENDED, without any of its devices"),
        (PoolHealth::Online, "is ONLINE, without any of its devices"),
    ] {
        let vdevs = vec![
            vdev("77", "UNAVAIL", VdevDevice::Missing),
            vdev("/x", "ONLINE", VdevDevice::Missing),
        ];
        let mut observed = observation(Some(Zpool { health, ..pool(vdevs, DatasetState::Whole) }));
        let state = observed.zpool.as_mut().unwrap();
        (state.devices, state.missing) = (Vec::new(), vec![id(1), id(2)]);
        for desired in [Desired::TargetReady(target()), Desired::TargetGone(target())] {
            let rejection = plan(&desired, &observed).unwrap_err();
            assert_eq!(rejection.class(), RejectionClass::Lost);
            assert!(rejection.to_string().contains(message), "{rejection}");
        }
    }
}

/// An earlier version panicked when a pool had lost more devices than there were new devices (W10 in
/// docs/develop/defects.md).
#[test]
fn each_lost_device_is_replaced_while_new_devices_remain() {
    let lost = |name: &str| vdev(name, "UNAVAIL", VdevDevice::Missing);
    let steps = |vdevs: Vec<Vdev>, devices: &[u32]| {
        let mut observed = serving(&target());
        let state = observed.zpool.as_mut().unwrap();
        state.devices = devices.iter().map(|nsid| device(*nsid)).collect();
        state.imported =
            Some(Zpool { health: PoolHealth::Degraded, ..pool(vdevs, DatasetState::Whole) });
        steps_to_ready(&target(), &observed)
    };
    let replaced = |old: &str, new: u32| {
        format!("replace a lost device of zpool {POOL}: {POOL} {old} /dev/nvme0n{new}")
    };
    assert_eq!(steps(vec![ours(1), lost("77")], &[1, 3]), [replaced("77", 3)]);
    assert_eq!(steps(vec![ours(1), lost("77"), lost("78")], &[1, 3]), [replaced("77", 3)]);
    assert_eq!(
        steps(vec![ours(1), lost("77"), lost("78")], &[1, 3, 4]),
        [replaced("77", 3), replaced("78", 4)]
    );
    assert!(
        steps(vec![ours(1), lost("77")], &[1]).is_empty(),
        "the lost device waits for a new drive"
    );
    let replaced_already = || vdev("76", "UNAVAIL", VdevDevice::Replaced);
    let vdevs = vec![ours(1), replaced_already(), ours(2), lost("77")];
    assert_eq!(
        steps(vdevs, &[1, 2, 3]),
        [replaced("77", 3)],
        "a new device that already replaces a lost device is not used again"
    );
}

#[test]
fn a_target_is_mounted_but_not_ready_while_its_pool_is_resilvered() {
    let mut observed = serving(&target());
    let pool = observed.zpool.as_mut().unwrap().imported.as_mut().unwrap();
    pool.resilvered = Some("3.04".parse().unwrap());
    assert!(refused(&target(), &observed).contains("3.04 % are done"));
    observed.target = None;
    assert!(
        !steps_to_ready(&target(), &observed).is_empty(),
        "the target is mounted before the pool is resilvered"
    );
    assert!(!steps_to_gone(&target(), &observed).is_empty());
}

#[test]
fn a_foreign_mount_at_the_target_is_rejected_and_stays() {
    let mut occupied = serving(&target());
    occupied.target = Some(lustre("pool-b/ost"));
    assert!(refused(&target(), &occupied).contains("occupied by lustre pool-b/ost"));
    let steps = steps_to_gone(&target(), &Observed { hooks_open: false, ..occupied });
    assert_eq!(steps, [format!("destroy zpool {POOL}: {POOL}")]);
    // A dataset that ZFS itself mounted is not a mounted target.
    let mut state = lustre(&format!("{POOL}/ost"));
    state.mounted.as_mut().unwrap().kind = "zfs".into();
    let by_zfs = Observed { target: Some(state), ..serving(&target()) };
    assert!(refused(&target(), &by_zfs).contains("occupied by zfs"));
    let mut newer = lustre(&format!("{POOL}/ost"));
    newer.mounted.as_mut().unwrap().kind = "lustre_tgt".into();
    assert!(
        steps_to_ready(&target(), &Observed { target: Some(newer), ..serving(&target()) })
            .is_empty()
    );
}

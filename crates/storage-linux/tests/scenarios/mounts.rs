use storage::{
    Step,
    host::StepError,
    observed::{PathState, Superblock},
    step::Mountable,
};

use super::*;

/// The root of a mount has the desired owner, and the mount is on one node only. After the unmount the
/// mount point is gone.
pub fn xfs(world: &dyn World) {
    let (namespace, fs) = create_file_system(world, 0);
    let compute = world.compute("compute-1");
    let mut mount = mount_of(&fs, world.point("wf-0"));
    mount.hooks.push(hook(mount.scope.clone(), HookPoint::PreMount, "true"));
    mount.hooks.push(hook(mount.scope.clone(), HookPoint::PostMount, "test -d $MOUNT_PATH"));
    mount.hooks.push(hook(mount.scope.clone(), HookPoint::PostUnmount, "true"));
    let steps = settle(&compute, &Desired::Mounted(mount.clone()));
    let starts = [
        "open",
        "run hook preMount",
        "create",
        "mount xfs",
        "change the owner",
        "run hook postMount",
    ];
    assert!(steps.iter().zip(starts).all(|(step, start)| step.starts_with(start)), "{steps:?}");
    assert_eq!(steps.len(), starts.len());

    let observed = compute.observe(&Desired::Mounted(mount.clone())).unwrap().target.unwrap();
    let mounted = observed.mounted.unwrap();
    assert_eq!(
        (mounted.kind.as_str(), mounted.superblock, mounted.namespace),
        ("xfs", Superblock::Ours(fs.id), Some(namespace.id))
    );
    assert_eq!(observed.owner, mount.owner);

    let steps = settle(&compute, &Desired::Unmounted(mount.clone()));
    let starts = ["unmount", "remove", "run hook postUnmount", "forget"];
    assert!(steps.iter().zip(starts).all(|(step, start)| step.starts_with(start)), "{steps:?}");
    assert_eq!(
        compute.observe(&Desired::Mounted(mount.clone())).unwrap().target.unwrap().path,
        PathState::Absent
    );
    assert!(settle(&compute, &Desired::Unmounted(mount)).is_empty());
}

/// A raw volume is mounted: its device is bind-mounted on a file.
pub fn raw(world: &dyn World) {
    let namespace = allocate(world, &allocation(0, SIZE, &["compute-1"]));
    let mut fs = file_system(world, 0, &namespace.id);
    fs.kind = FileSystemKind::Raw;
    assert!(settle(&world.rabbit(), &Desired::FileSystemReady(fs.clone())).is_empty());
    let compute = world.compute("compute-1");
    let mount = mount_of(&fs, world.point("raw-0"));
    settle(&compute, &Desired::Mounted(mount.clone()));
    let target = compute.observe(&Desired::Mounted(mount.clone())).unwrap().target.unwrap();
    assert_eq!(target.path, PathState::BlockDevice);
    assert_eq!(
        (target.owner, target.mounted.unwrap().namespace),
        (mount.owner, Some(namespace.id))
    );
    let target = mount.target.clone();
    let steps = settle(&compute, &Desired::Unmounted(mount));
    assert_eq!(
        steps[0],
        format!("change the owner of {target} to 0:0"),
        "the device serves another user next"
    );
    let empty = Desired::IndexTree(storage::desired::IndexTree { root: target, links: vec![] });
    assert_eq!(compute.observe(&empty).unwrap().tree.unwrap().path, PathState::Absent);
}

/// A device's name moves to another namespace between the observation and the mount, and the mount fails.
pub fn renamed(world: &dyn World) {
    let ((_, fs), (_, other)) = (create_file_system(world, 0), create_file_system(world, 1));
    let compute = world.compute("compute-1");
    let mounting = |fs: &FileSystem| {
        let mount = Desired::Mounted(mount_of(fs, world.point("wf-0")));
        let steps = Converger::new(Arc::clone(&compute)).plan(&mount).unwrap();
        steps.into_iter().find(|step| matches!(step, Step::Mount { .. })).unwrap()
    };
    let (mut step, other_step) = (mounting(&fs), mounting(&other));
    let Step::Mount { source: Mountable::Device(another), .. } = other_step else { unreachable!() };
    let Step::Mount { source: Mountable::Device(device), .. } = &mut step else { unreachable!() };
    device.path = another.path;
    assert!(matches!(compute.apply(&step), Err(StepError::Changed(_))));
}

/// A volume is mounted at one mount point and bind-mounted at a second. The second mount can be unmounted even after
/// the first.
pub fn bind(world: &dyn World) {
    let (_, fs) = create_file_system(world, 0);
    let rabbit = world.rabbit();
    let first = mount_of(&fs, world.point("first"));
    let mut second = mount_of(&fs, world.point("tree/node-0"));
    second.source = MountSource::Bind(first.target.clone());
    second.mount = command("-o bind $DEVICE $MOUNT_PATH");
    second.owner = None;
    let rejection = rejected(world, &rabbit, &Desired::Mounted(second.clone()));
    assert!(matches!(rejection, Rejection::SourceNotMounted { .. }), "{rejection}");
    settle(&rabbit, &Desired::Mounted(first.clone()));
    settle(&rabbit, &Desired::Mounted(second.clone()));
    settle(&rabbit, &Desired::Unmounted(first));
    settle(&rabbit, &Desired::Unmounted(second.clone()));
    let tree = storage::desired::IndexTree { root: second.target.parent().unwrap(), links: vec![] };
    let observed = rabbit.observe(&Desired::IndexTree(tree)).unwrap().tree.unwrap();
    assert_eq!(
        observed.path,
        PathState::Absent,
        "the empty index tree is removed with its last mount"
    );
}

/// The desired mounts of Warren's and all foreign mounts stay; the other mounts of Warren's are unmounted.
pub fn only_mounts(world: &dyn World) {
    let (_, fs) = create_file_system(world, 0);
    let rabbit = world.rabbit();
    let kept = mount_of(&fs, world.point("kept"));
    // The mount table shows the blank and the backslash in this name as octal codes.
    let orphan = mount_of(&fs, world.point(r"orphan \040"));
    settle(&rabbit, &Desired::Mounted(kept.clone()));
    settle(&rabbit, &Desired::Mounted(orphan.clone()));
    let foreign = world.point("foreign");
    world.plant_mount(&foreign);
    let before = world.foreign();
    let steps = settle(&rabbit, &Desired::OnlyMounts(vec![kept.target.clone()]));
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert!(steps[0].contains("orphan"), "{steps:?}");
    assert_eq!(world.foreign(), before);
    assert!(settle(&rabbit, &Desired::Mounted(kept)).is_empty());
}

/// A busy mount does not prevent the other unmounts, and every remaining mount is reported.
pub fn only_mounts_goes_on(world: &dyn World) {
    let (_, fs) = create_file_system(world, 0);
    let rabbit = world.rabbit();
    let mounts =
        ["first", "busy-1", "second", "busy-2"].map(|name| mount_of(&fs, world.point(name)));
    for mount in &mounts {
        settle(&rabbit, &Desired::Mounted(mount.clone()));
    }
    world.plant_mount(&world.point("busy-1/inside"));
    world.plant_mount(&world.point("busy-2/inside"));
    let error = converge(&rabbit, &Desired::OnlyMounts(vec![])).unwrap_err();
    let ConvergeError::Step(failed) = &error else { panic!("{}", chain(&error)) };
    let StepError::Several { others, .. } = &failed.source else { panic!("{}", chain(&error)) };
    assert_eq!(others.len(), 1);
    let text = chain(&error);
    assert!(text.contains("busy-1") && text.contains("busy-2"), "{text}");
    assert!(text.contains("os error 16") && !text.contains("first"), "{text}");
    for (mount, stays) in mounts.iter().zip([false, true, false, true]) {
        let target = rabbit.observe(&Desired::Unmounted(mount.clone())).unwrap().target.unwrap();
        assert_eq!(target.mounted.is_some(), stays, "{}", mount.target);
    }
}

/// A foreign mount that covers our mount, at its mount point or at a parent, stays; our covered mount stays too.
pub fn covered(world: &dyn World) {
    let (_, first) = create_file_system(world, 0);
    let (_, second) = create_file_system(world, 1);
    let rabbit = world.rabbit();
    let same = mount_of(&first, world.point("same"));
    let child = mount_of(&second, world.point("wf-0/node-0"));
    for (mount, over) in [(&same, world.point("same")), (&child, world.point("wf-0"))] {
        settle(&rabbit, &Desired::Mounted(mount.clone()));
        world.plant_mount(&over);
        let rejection = rejected(world, &rabbit, &Desired::Unmounted(mount.clone()));
        let (target, at) = (mount.target.clone(), over.path());
        assert_eq!(rejection, Rejection::Covered { target, at });
    }
    let rejection = rejected(world, &rabbit, &Desired::OnlyMounts(vec![]));
    assert!(matches!(rejection, Rejection::Covered { .. }), "{rejection}");
    let rejection = rejected(world, &rabbit, &Desired::Mounted(same));
    assert!(matches!(rejection, Rejection::Occupied { .. }), "{rejection}");
}

/// Between the observation and the step, a foreign mount appears on top of our mount: the foreign
/// mount is not unmounted.
pub fn swapped(world: &dyn World) {
    let (_, fs) = create_file_system(world, 0);
    let rabbit = world.rabbit();
    let mount = mount_of(&fs, world.point("a"));
    settle(&rabbit, &Desired::Mounted(mount.clone()));
    let plan =
        Converger::new(Arc::clone(&rabbit)).plan(&Desired::Unmounted(mount.clone())).unwrap();
    world.plant_mount(&mount.target);
    let before = world.foreign();
    let error = rabbit.apply(&plan[0]).unwrap_err();
    assert!(matches!(error, StepError::Changed(_)), "{}", chain(&error));
    rabbit.apply(&plan[1]).unwrap();
    assert_eq!(world.foreign(), before);
}

/// Directories that were created for a mount are removed with it, if they are empty.
pub fn deep(world: &dyn World) {
    let (_, fs) = create_file_system(world, 0);
    let rabbit = world.rabbit();
    let path = |at: &str| {
        let tree = storage::desired::IndexTree { root: world.point(at), links: vec![] };
        rabbit.observe(&Desired::NoIndexTree(tree)).unwrap().tree.unwrap().path
    };
    let mount = mount_of(&fs, world.point("a/b/c/d"));
    settle(&rabbit, &Desired::Mounted(mount.clone()));
    settle(&rabbit, &Desired::Unmounted(mount.clone()));
    assert_eq!(path("a"), PathState::Absent);
    // Simulates a crash after the mount point was removed and before its parents were removed.
    rabbit.apply(&Step::CreateDirectory { path: world.point("a/b") }).unwrap();
    assert_eq!(settle(&rabbit, &Desired::Unmounted(mount)).len(), 1);
    assert_eq!(path("a"), PathState::Absent);

    world.plant_file(&world.point("x/theirs"));
    let beside = mount_of(&fs, world.point("x/y/z"));
    settle(&rabbit, &Desired::Mounted(beside.clone()));
    settle(&rabbit, &Desired::Unmounted(beside));
    assert_eq!(
        (path("x/y"), path("x")),
        (PathState::Absent, PathState::Directory { empty: false })
    );
}

/// A volume that is unmounted here but used in another mount namespace is not released.
pub fn kept_elsewhere(world: &dyn World) {
    let (_, fs) = create_file_system(world, 0);
    let rabbit = world.rabbit();
    let mut mount = mount_of(&fs, world.point("wf-0"));
    mount.hooks.push(hook(mount.scope.clone(), HookPoint::PostUnmount, "true"));
    settle(&rabbit, &Desired::Mounted(mount.clone()));
    let keeper = world.keep_elsewhere(&mount.target);
    let gone = Desired::Unmounted(mount.clone());
    for _ in 0..2 {
        let error = converge(&rabbit, &gone).unwrap_err();
        let ConvergeError::Rejected(Rejection::StillInUse { target, holders, .. }) = &error else {
            panic!("{}", chain(&error))
        };
        assert_eq!((target, holders.names.len()), (&mount.target, 1), "{error}");
        let text = holders.to_string();
        assert!(text.contains("(sh") && text.contains("another mount namespace"), "{text}");
        let observed = rabbit.observe(&gone).unwrap();
        assert!(observed.target.unwrap().mounted.is_none(), "unmounting succeeds");
    }
    drop(keeper);
    let steps = settle(&rabbit, &gone);
    assert!(steps[0].starts_with("run hook postUnmount"), "{steps:?}");
}

/// When a mount is desired again after its tear-down hooks ran, its set-up hooks run again.
pub fn wanted_again(world: &dyn World) {
    let (_, fs) = create_file_system(world, 0);
    let rabbit = world.rabbit();
    let mut mount = mount_of(&fs, world.point("a"));
    mount.hooks.push(hook(mount.scope.clone(), HookPoint::PreMount, "true"));
    mount.hooks.push(hook(mount.scope.clone(), HookPoint::PreUnmount, "true"));
    settle(&rabbit, &Desired::Mounted(mount.clone()));
    let ran = Desired::Unmounted(mount.clone());
    let plan = Converger::new(Arc::clone(&rabbit)).plan(&ran).unwrap();
    // The agent ends after the first tear-down hook; then the mount is desired again.
    rabbit.apply(&plan[0]).unwrap();
    let steps = settle(&rabbit, &Desired::Mounted(mount.clone()));
    assert!(steps.iter().any(|step| step.starts_with("run hook preMount")), "{steps:?}");
    settle(&rabbit, &ran);
}

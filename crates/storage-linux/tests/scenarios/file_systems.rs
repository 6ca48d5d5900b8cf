use super::*;

fn hooked(world: &dyn World, index: u32, namespace: &NamespaceId) -> FileSystem {
    let mut fs = file_system(world, index, namespace);
    let scope = fs.scope();
    fs.hooks = vec![
        hook(scope.clone(), HookPoint::PostActivate, "test -b $DEVICE"),
        hook(scope.clone(), HookPoint::PostSetup, "chmod 0700 $MOUNT_PATH"),
        hook(scope.clone(), HookPoint::PreTeardown, "test -d $MOUNT_PATH"),
        hook(scope.clone(), HookPoint::PreDeactivate, "true"),
        hook(scope, HookPoint::PostTeardown, "true"),
    ];
    fs
}

/// A file system is created once with its hooks in order, and torn down once; its contents are not wiped.
pub fn life(world: &dyn World) {
    let namespace = allocate(world, &allocation(0, SIZE, &[]));
    let fs = hooked(world, 0, &namespace.id);
    let rabbit = world.rabbit();
    let verbs = |steps: &[String]| -> Vec<String> {
        steps
            .iter()
            .map(|step| step.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
            .collect()
    };
    let steps = settle(&rabbit, &Desired::FileSystemReady(fs.clone()));
    assert_eq!(
        verbs(&steps),
        [
            "open hook",
            "make xfs",
            "run hook",
            "create mount",
            "mount xfs",
            "run hook",
            "unmount",
            "remove mount"
        ]
        .map(|verb| if verb == "unmount" {
            format!("unmount {}:", fs.temporary)
        } else {
            verb.to_owned()
        })
    );
    assert_eq!(signature(&rabbit, &fs), Some(Signature::Ours(fs.id)));
    let steps = settle(&rabbit, &Desired::FileSystemGone(fs.clone()));
    assert_eq!(steps.len(), 8, "{steps:?}");
    assert!(steps[2].contains("preTeardown") && steps[7].starts_with("forget"), "{steps:?}");
    assert_eq!(signature(&rabbit, &fs), Some(Signature::Ours(fs.id)));
    // The file system is desired again: it still exists, but its hooks are due again.
    assert_eq!(settle(&rabbit, &Desired::FileSystemReady(fs)).len(), 7);
}

/// The remains of a killed mkfs are wiped, and mkfs runs again.
pub fn half_made(world: &dyn World) {
    let namespace = allocate(world, &allocation(0, SIZE, &[]));
    let fs = file_system(world, 0, &namespace.id);
    world.plant_half_made(&namespace, fs.id);
    let rabbit = world.rabbit();
    assert_eq!(signature(&rabbit, &fs), Some(Signature::HalfMade(fs.id)));
    let steps = settle(&rabbit, &Desired::FileSystemReady(fs.clone()));
    assert!(steps[0].starts_with("wipe") && steps[1].starts_with("make"), "{steps:?}");
    assert_eq!(signature(&rabbit, &fs), Some(Signature::Ours(fs.id)));
}

/// A foreign mount at the temporary mount point does not prevent the removal of a file system, unless it
/// covers our own mount.
pub fn occupied_temporary_place(world: &dyn World) {
    let (_, fs) = create_file_system(world, 0);
    let (_, other) = create_file_system(world, 1);
    let rabbit = world.rabbit();
    world.plant_mount(&fs.temporary);
    let before = world.foreign();
    assert!(settle(&rabbit, &Desired::FileSystemGone(fs)).is_empty());
    assert_eq!(world.foreign(), before);

    let mut left = mount_of(&other, other.temporary.clone());
    left.owner = None;
    settle(&rabbit, &Desired::Mounted(left));
    world.plant_mount(&other.temporary);
    for desired in [Desired::FileSystemGone(other.clone()), Desired::FileSystemReady(other)] {
        let rejection = rejected(world, &rabbit, &desired);
        assert!(matches!(rejection, Rejection::Covered { .. }), "{rejection}");
    }
}

/// A temporary mount that a crash left is used, and then unmounted.
pub fn leftover_temporary_mount(world: &dyn World) {
    let (_, fs) = create_file_system(world, 0);
    let rabbit = world.rabbit();
    let mut left = mount_of(&fs, fs.temporary.clone());
    left.owner = None;
    settle(&rabbit, &Desired::Mounted(left.clone()));
    let steps = settle(&rabbit, &Desired::FileSystemReady(fs.clone()));
    assert_eq!(steps.len(), 2, "{steps:?}");

    settle(&rabbit, &Desired::Mounted(left));
    let hooked = hooked(world, 0, &fs.volume.namespaces[0]);
    let steps = settle(&rabbit, &Desired::FileSystemReady(hooked));
    assert!(!steps.iter().any(|step| step.starts_with("mount")), "{steps:?}");
    let observed = rabbit.observe(&Desired::FileSystemReady(fs)).unwrap().temporary.unwrap();
    assert_eq!((observed.mounted, observed.path), (None, storage::observed::PathState::Absent));
}

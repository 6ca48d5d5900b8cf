use super::*;

pub fn occupied(world: &dyn World) {
    let (_, fs) = create_file_system(world, 0);
    let target = world.point("busy");
    world.plant_mount(&target);
    let mount = mount_of(&fs, target);
    let rejection = rejected(world, &world.rabbit(), &Desired::Mounted(mount.clone()));
    assert!(matches!(rejection, Rejection::Occupied { .. }), "{rejection}");
    assert!(rejection.to_string().contains("tmpfs"), "{rejection}");
    // The file system was never mounted there, so its unmount has nothing to do.
    let before = world.foreign();
    assert!(settle(&world.rabbit(), &Desired::Unmounted(mount)).is_empty());
    assert_eq!(world.foreign(), before);
}

pub fn occupied_by_another_allocation(world: &dyn World) {
    let (_, fs) = create_file_system(world, 0);
    let (_, other) = create_file_system(world, 1);
    let rabbit = world.rabbit();
    settle(&rabbit, &Desired::Mounted(mount_of(&fs, world.point("a"))));
    let late = mount_of(&other, world.point("a"));
    let rejection = rejected(world, &rabbit, &Desired::Mounted(late.clone()));
    assert!(matches!(rejection, Rejection::Occupied { .. }), "{rejection}");
    assert!(settle(&rabbit, &Desired::Unmounted(late)).is_empty());
    assert!(settle(&rabbit, &Desired::Mounted(mount_of(&fs, world.point("a")))).is_empty());
}

pub fn symlinks(world: &dyn World) {
    let (_, fs) = create_file_system(world, 0);
    let rabbit = world.rabbit();
    world.plant_link(&world.point("link"), "/etc");
    for below in ["link", "link/deeper", "link/deeper/still"] {
        let rejection =
            rejected(world, &rabbit, &Desired::Mounted(mount_of(&fs, world.point(below))));
        let Rejection::ThroughSymlink { at, .. } = &rejection else { panic!("{rejection}") };
        assert_eq!(*at, world.point("link").path());
        // No mount of ours can be at this path, so there is nothing to unmount.
        assert!(settle(&rabbit, &Desired::Unmounted(mount_of(&fs, world.point(below)))).is_empty());
    }
}

pub fn wrong_things_in_the_way(world: &dyn World) {
    let (_, fs) = create_file_system(world, 0);
    let rabbit = world.rabbit();
    world.plant_file(&world.point("dir/file"));
    let at = |below: &str| {
        rejected(world, &rabbit, &Desired::Mounted(mount_of(&fs, world.point(below))))
    };
    assert!(matches!(at("dir/file"), Rejection::WrongType { .. }));
    assert!(matches!(at("dir"), Rejection::NotEmpty { .. }));
    assert!(matches!(at("dir/file/beneath"), Rejection::ThroughFile { .. }));
    let mut raw = mount_of(&fs, world.point("dir/file"));
    raw.kind = FileSystemKind::Raw;
    let rejection = rejected(world, &rabbit, &Desired::Mounted(raw));
    assert!(matches!(rejection, Rejection::NotEmpty { .. }), "{rejection}");
}

/// Users own the directories inside a mount, so the agent mounts nothing inside another mount.
pub fn through_a_mount(world: &dyn World) {
    let (_, fs) = create_file_system(world, 0);
    let (_, other) = create_file_system(world, 1);
    let rabbit = world.rabbit();
    settle(&rabbit, &Desired::Mounted(mount_of(&fs, world.point("a"))));
    let rejection =
        rejected(world, &rabbit, &Desired::Mounted(mount_of(&other, world.point("a/sub/dir"))));
    let Rejection::ThroughMount { at, .. } = &rejection else { panic!("{rejection}") };
    assert_eq!(*at, world.point("a").path());
}

pub fn foreign_signature(world: &dyn World) {
    let namespace = allocate(world, &allocation(0, SIZE, &[]));
    world.plant_ext4(&namespace);
    let fs = file_system(world, 0, &namespace.id);
    let rabbit = world.rabbit();
    for desired in
        [Desired::FileSystemReady(fs.clone()), Desired::Mounted(mount_of(&fs, world.point("a")))]
    {
        let rejection = rejected(world, &rabbit, &desired);
        let Rejection::ForeignSignature { kind, .. } = &rejection else { panic!("{rejection}") };
        assert_eq!(kind, "ext4");
    }
}

pub fn not_made_or_anothers(world: &dyn World) {
    let blank = allocate(world, &allocation(5, SIZE, &[]));
    let unmade = file_system(world, 5, &blank.id);
    let rabbit = world.rabbit();
    let rejection =
        rejected(world, &rabbit, &Desired::Mounted(mount_of(&unmade, world.point("a"))));
    assert!(matches!(rejection, Rejection::NotMade { .. }), "{rejection}");

    let (namespace, _) = create_file_system(world, 0);
    let mistaken = file_system(world, 7, &namespace.id);
    for desired in [
        Desired::FileSystemReady(mistaken.clone()),
        Desired::Mounted(mount_of(&mistaken, world.point("a"))),
    ] {
        let rejection = rejected(world, &rabbit, &desired);
        assert!(matches!(rejection, Rejection::WrongFileSystem { .. }), "{rejection}");
    }
}

/// A drive reuses an NSID: the agent does not mistake the new namespace, which is recorded for another allocation, for
/// the deleted namespace.
pub fn made_for_another(world: &dyn World) {
    let blank = allocate(world, &allocation(5, SIZE, &[]));
    let mut mistaken = file_system(world, 5, &blank.id);
    mistaken.volume.made_for = Some(allocation(6, SIZE, &[]).id);
    let rabbit = world.rabbit();
    let ready = Desired::FileSystemReady(mistaken.clone());
    let volume = rabbit.observe(&ready).unwrap().volume.unwrap();
    assert_eq!((volume.devices, volume.missing), (Vec::new(), vec![blank.id]));
    rejected(world, &rabbit, &ready);
    mistaken.volume.made_for = Some(allocation(5, SIZE, &[]).id);
    settle(&rabbit, &Desired::FileSystemReady(mistaken));
}

pub fn profile_sets_uuid(world: &dyn World) {
    let namespace = allocate(world, &allocation(0, SIZE, &[]));
    for line in ["-m uuid=0 $DEVICE", "-mcrc=1,uuid=0 $DEVICE"] {
        let mut fs = file_system(world, 0, &namespace.id);
        fs.mkfs = command(line);
        let rejection = rejected(world, &world.rabbit(), &Desired::FileSystemReady(fs));
        assert!(matches!(rejection, Rejection::MkfsSetsUuid { .. }), "{rejection}");
    }
}

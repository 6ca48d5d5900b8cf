use super::*;

/// Made, granted, withdrawn, deleted; each time with nothing left to do.
pub fn life(world: &dyn World) {
    let mut wanted = allocation(0, SIZE + 1, &["compute-1", "compute-2"]);
    let rabbit = world.rabbit();
    let steps = settle(&rabbit, &Desired::Allocated(wanted.clone()));
    assert_eq!(steps.len(), 4, "{steps:?}");
    let made = namespace(world, wanted.id).unwrap();
    assert!(made.size > SIZE && made.size.is_multiple_of(4096), "{made:?}");
    assert!(made.device.is_some());
    assert_eq!(made.access.len(), 3);

    wanted.access.retain(|access| access.node.as_str() == "compute-2");
    let steps = settle(&rabbit, &Desired::Allocated(wanted.clone()));
    assert_eq!(steps.len(), 2, "{steps:?}");
    let left = namespace(world, wanted.id).unwrap();
    assert_eq!(left.access, [node("compute-2")].into());
    assert_eq!(left.id, made.id);

    wanted.access.clear();
    settle(&rabbit, &Desired::Allocated(wanted.clone()));
    assert_eq!(namespace(world, wanted.id).unwrap().device, None, "nobody reaches it");

    settle(&rabbit, &Desired::Released(wanted.id));
    assert_eq!(namespace(world, wanted.id), None);
    assert!(settle(&rabbit, &Desired::Released(wanted.id)).is_empty());
}

/// Only a node that was given access sees a device.
pub fn access_is_what_a_node_sees(world: &dyn World) {
    let namespace = allocate(world, &allocation(0, SIZE, &["compute-1"]));
    let fs = file_system(world, 0, &namespace.id);
    let desired = Desired::Mounted(mount_of(&fs, world.point("a")));
    assert_eq!(
        world.compute("compute-1").observe(&desired).unwrap().volume.unwrap().devices.len(),
        1
    );
    let looked = world.compute("compute-2").observe(&desired).unwrap().volume.unwrap();
    assert_eq!((looked.devices.len(), looked.missing), (0, vec![namespace.id]));
    let rejection = rejected(world, &world.compute("compute-2"), &desired);
    assert!(matches!(rejection, Rejection::NoDevice { .. }), "{rejection}");
}

/// Devices are gone after a reboot, access is not: converging brings the device back.
pub fn reboot(world: &dyn World) {
    let wanted = allocation(0, SIZE, &["compute-1"]);
    let before = allocate(world, &wanted);
    world.reboot();
    assert_eq!(namespace(world, wanted.id).unwrap().device, None);
    settle(&world.rabbit(), &Desired::Allocated(wanted.clone()));
    let after = namespace(world, wanted.id).unwrap();
    assert_eq!((after.id, after.device.is_some()), (before.id, true));
}

/// A mounted namespace is neither taken from its last node nor deleted.
pub fn busy(world: &dyn World) {
    let (_, fs) = made(world, 0);
    let rabbit = world.rabbit();
    let mount = mount_of(&fs, world.point("a"));
    settle(&rabbit, &Desired::Mounted(mount.clone()));
    let id = allocation(0, 0, &[]).id;
    let error = converge(&rabbit, &Desired::Released(id)).unwrap_err();
    assert!(chain(&error).contains("os error 16"), "{}", chain(&error));
    assert!(namespace(world, id).unwrap().device.is_some());
    settle(&rabbit, &Desired::Unmounted(mount));
    settle(&rabbit, &Desired::Released(id));
}

/// Capacity: nothing, more than a drive, more than is left.
pub fn capacity(world: &dyn World) {
    let rabbit = world.rabbit();
    let nothing = rejected(world, &rabbit, &Desired::Allocated(allocation(0, 0, &[])));
    assert!(matches!(nothing, Rejection::ZeroCapacity { .. }));
    for asked in [1 << 50, u64::MAX] {
        let much = rejected(world, &rabbit, &Desired::Allocated(allocation(0, asked, &[])));
        assert!(matches!(much, Rejection::InsufficientCapacity { .. }), "{much}");
        assert!(much.to_string().contains(&asked.to_string()), "{much}");
    }
}

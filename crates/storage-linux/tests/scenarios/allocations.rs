use super::*;

/// An allocation is created, attached, detached and deleted; after each call the plan is empty.
pub fn life(world: &dyn World) {
    let mut wanted = allocation(0, SIZE + 1, &["compute-1", "compute-2"]);
    let rabbit = world.rabbit();
    let steps = settle(&rabbit, &Desired::Allocated(wanted.clone()));
    assert_eq!(steps.len(), 4, "{steps:?}");
    let created = namespace(world, wanted.id).unwrap();
    assert!(created.size > SIZE && created.size.is_multiple_of(4096), "{created:?}");
    assert!(created.device.is_some());
    assert_eq!(created.access.len(), 3);

    wanted.access.retain(|access| access.node.as_str() == "compute-2");
    let steps = settle(&rabbit, &Desired::Allocated(wanted.clone()));
    assert_eq!(steps.len(), 2, "{steps:?}");
    let after_detach = namespace(world, wanted.id).unwrap();
    assert_eq!(
        after_detach.access.iter().map(|host| &host.node).collect::<Vec<_>>(),
        [&node("compute-2")]
    );
    assert_eq!(after_detach.id, created.id);

    wanted.access.clear();
    settle(&rabbit, &Desired::Allocated(wanted.clone()));
    assert_eq!(
        namespace(world, wanted.id).unwrap().device,
        None,
        "no host has access to the namespace"
    );

    settle(&rabbit, &Desired::Released(wanted.id));
    assert_eq!(namespace(world, wanted.id), None);
    assert!(settle(&rabbit, &Desired::Released(wanted.id)).is_empty());
}

/// A compute moves to another slot: the compute still reaches the namespace, and a host in the slot that it left does
/// not.
pub fn moved(world: &dyn World) {
    let mut wanted = allocation(0, SIZE, &["compute-1"]);
    let created = allocate(world, &wanted);
    let rabbit = wanted.access.first().cloned().unwrap();
    let moved = Access { endpoint: Endpoint::Compute(5), node: node("compute-1") };
    wanted.access = [rabbit, moved].into();
    settle(&world.rabbit(), &Desired::Allocated(wanted.clone()));
    let after = namespace(world, wanted.id).unwrap();
    assert!(wanted.access.iter().all(|access| after.is_attached_to(access)), "{after:?}");
    assert_eq!((after.access.len(), after.id, after.device), (2, created.id, created.device));
}

/// Only a node that has access sees a device of the namespace.
pub fn access_is_what_a_node_sees(world: &dyn World) {
    let namespace = allocate(world, &allocation(0, SIZE, &["compute-1"]));
    let fs = file_system(world, 0, &namespace.id);
    let desired = Desired::Mounted(mount_of(&fs, world.point("a")));
    assert_eq!(
        world.compute("compute-1").observe(&desired).unwrap().volume.unwrap().devices.len(),
        1
    );
    let observed = world.compute("compute-2").observe(&desired).unwrap().volume.unwrap();
    assert_eq!((observed.devices.len(), observed.missing), (0, vec![namespace.id]));
    let rejection = rejected(world, &world.compute("compute-2"), &desired);
    assert!(matches!(rejection, Rejection::NoDevice { .. }), "{rejection}");
}

/// After a reboot the hosts keep their access, and a convergence creates the missing device again.
pub fn reboot(world: &dyn World) {
    let wanted = allocation(0, SIZE, &["compute-1"]);
    let before = allocate(world, &wanted);
    world.reboot();
    assert_eq!(namespace(world, wanted.id).unwrap().device, None);
    settle(&world.rabbit(), &Desired::Allocated(wanted.clone()));
    let after = namespace(world, wanted.id).unwrap();
    assert_eq!((after.id, after.device.is_some()), (before.id, true));
}

/// A mounted namespace is neither detached from the node that has mounted it nor deleted.
pub fn busy(world: &dyn World) {
    let (_, fs) = create_file_system(world, 0);
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

/// An allocation is rejected when it asks for no bytes, for more bytes than a drive has, or for more
/// than the free bytes.
pub fn capacity(world: &dyn World) {
    let rabbit = world.rabbit();
    let nothing = rejected(world, &rabbit, &Desired::Allocated(allocation(0, 0, &[])));
    assert!(matches!(nothing, Rejection::ZeroCapacity { .. }));
    for requested in [1 << 50, u64::MAX] {
        let rejection =
            rejected(world, &rabbit, &Desired::Allocated(allocation(0, requested, &[])));
        assert!(matches!(rejection, Rejection::InsufficientCapacity { .. }), "{rejection}");
        assert!(rejection.to_string().contains(&requested.to_string()), "{rejection}");
    }
}

fn all(world: &dyn World) -> Vec<Namespace> {
    world.rabbit().observe(&Desired::Inventory).unwrap().namespaces
}

fn free(world: &dyn World) -> Vec<u64> {
    let observed = world.rabbit().observe(&Desired::Inventory).unwrap();
    observed.drives.iter().map(storage::observed::Drive::free).collect()
}

fn over_four(index: u32, computes: &[&str]) -> Allocation {
    let spread = Spread::new(4, 2).unwrap();
    Allocation { spread, ..allocation(index, SIZE + 1, computes) }
}

fn reported(namespaces: &[Namespace]) -> Vec<Reported> {
    let report = |namespace: &Namespace| Reported {
        id: namespace.id.clone(),
        size: namespace.size,
        contested: false,
    };
    namespaces.iter().map(report).collect()
}

/// An allocation over all drives is created, attached, detached and deleted.
pub fn spread(world: &dyn World) {
    let before = free(world);
    let wanted = over_four(0, &["compute-1"]);
    let steps = settle(&world.rabbit(), &Desired::Allocated(wanted.clone()));
    assert_eq!(steps.len(), 4 + 2 * 4, "{steps:?}");
    let created = all(world);
    let drives: std::collections::BTreeSet<_> =
        created.iter().map(|namespace| &namespace.id.subsystem).collect();
    assert_eq!((created.len(), drives.len()), (4, 4));
    let share = (SIZE + 1).div_ceil(4).next_multiple_of(4096);
    for namespace in &created {
        assert_eq!(
            (namespace.size, namespace.members, namespace.access.len(), namespace.device.is_some()),
            (share, 4, 2, true),
            "{namespace:?}"
        );
    }
    let now: Vec<_> = before.iter().map(|free| free - share).collect();
    assert_eq!(free(world), now);
    world.reboot();
    settle(
        &world.rabbit(),
        &Desired::Allocated(Allocation { reported: reported(&created), ..wanted.clone() }),
    );
    assert_eq!(all(world).len(), 4, "no namespace is created again");
    settle(&world.rabbit(), &Desired::Released(wanted.id));
    assert_eq!((all(world), free(world)), (vec![], before));
}

/// An allocation over more drives than exist is rejected; the rejection gives both numbers.
pub fn too_few_drives(world: &dyn World) {
    let wanted = Allocation { spread: Spread::RABBIT, ..allocation(0, SIZE, &[]) };
    let refusal = rejected(world, &world.rabbit(), &Desired::Allocated(wanted));
    assert!(matches!(
        refusal,
        Rejection::TooFewDrives { usable: 4, least: 14, drives: 4, requested: SIZE, .. }
    ));
}

/// After a crash that follows any of the creations, the next agent creates the namespaces that are still missing.
pub fn completed(world: &dyn World) {
    let wanted = Desired::Allocated(over_four(0, &[]));
    let rabbit = world.rabbit();
    for created in 0..=4 {
        let steps = Converger::new(Arc::clone(&rabbit)).plan(&wanted).unwrap();
        assert_eq!(steps.len(), 4);
        steps.iter().take(created).for_each(|step| rabbit.apply(step).unwrap());
        settle(&rabbit, &wanted);
        let drives: std::collections::BTreeSet<_> =
            all(world).into_iter().map(|namespace| namespace.id.subsystem).collect();
        assert_eq!((all(world).len(), drives.len()), (4, 4), "after {created}");
        settle(&rabbit, &Desired::Released(over_four(0, &[]).id));
        assert_eq!(all(world), [], "after {created}");
    }
}

/// After the records are lost, namespaces that no object reports stay. The namespaces in the status of an object are
/// adopted: all of them, or none.
pub fn records_lost(world: &dyn World) {
    let rabbit = world.rabbit();
    let (wanted, orphan) = (over_four(0, &["compute-1"]), allocation(1, SIZE, &[]));
    settle(&rabbit, &Desired::Allocated(orphan.clone()));
    let without_record = all(world)[0].id.clone();
    settle(&rabbit, &Desired::Allocated(wanted.clone()));
    let created: Vec<_> =
        all(world).into_iter().filter(|namespace| namespace.id != without_record).collect();
    world.lose_records();
    assert!(all(world).iter().all(|namespace| namespace.owner == NamespaceOwner::Unknown));
    settle(&rabbit, &Desired::Released(wanted.id));
    settle(&rabbit, &Desired::Released(orphan.id));
    assert_eq!(all(world).len(), 5, "nothing is deleted that is not provably ours");

    let known = Allocation { reported: reported(&created), ..wanted.clone() };
    let mut another = known.clone();
    another.reported[1].size += 4096;
    let mut contested = known.clone();
    contested.reported[2].contested = true;
    let mut gone = known.clone();
    gone.reported[3].id.nsid = 77;
    for wrong in [another, contested, gone] {
        let refusal = rejected(world, &rabbit, &Desired::Allocated(wrong));
        assert!(matches!(refusal, Rejection::Lost { .. }), "{refusal}");
    }
    settle(&rabbit, &Desired::Allocated(known));
    let adopted: Vec<_> =
        all(world).into_iter().filter(|namespace| namespace.id != without_record).collect();
    assert_eq!(adopted, created, "the namespaces are the same as before the loss");
    settle(&rabbit, &Desired::Released(wanted.id));
    assert_eq!(
        all(world).iter().map(|namespace| &namespace.id).collect::<Vec<_>>(),
        [&without_record]
    );
}

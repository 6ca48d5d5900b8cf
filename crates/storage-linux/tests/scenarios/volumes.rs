//! Tests logical volumes with the lines that sites have in their profiles.

use storage::{
    desired::{LvmLines, VolumeLayer},
    observed::VolumeState,
};

use super::*;

/// Returns the lines of the default profile, without the lines for locks, which need a lock manager.
pub fn lines(volume: &Volume) -> LvmLines {
    let (group, name) = (&volume.group, &volume.logical);
    LvmLines {
        pv_create: command("$DEVICE"),
        pv_remove: command("$DEVICE"),
        vg_create: command(&format!("--addtag job {group} $DEVICE_LIST")),
        vg_remove: command(group),
        lv_create: command(&format!(
            "--zero n --activate n --size 320M --stripes $DEVICE_NUM --stripesize=32KiB --name {name} {group}"
        )),
        lv_remove: command(&format!("{group}/{name}")),
        activate: command(&format!("--activate y {group}/{name}")),
        deactivate: command(&format!("--activate n {group}/{name}")),
        ..LvmLines::default()
    }
}

/// Returns a group name that no other world uses: device-mapper has one list of names for the whole kernel.
fn group(world: &dyn World, name: &str) -> String {
    let label = world.label();
    format!("{}-{name}", label.rsplit('/').next().unwrap_or_default())
}

/// Returns an XFS on a logical volume over two namespaces.
pub fn striped(world: &dyn World) -> FileSystem {
    let two = [0, 1].map(|index| allocate(world, &allocation(index, SIZE, &["compute-1"])).id);
    let mut fs = file_system(world, 0, &two[0]);
    fs.volume.group = group(world, "vg");
    fs.volume.namespaces = two.to_vec();
    fs.volume.layer = VolumeLayer::Lvm(Box::new(lines(&fs.volume)));
    fs
}

fn state(host: &Arc<dyn Host>, fs: &FileSystem) -> VolumeState {
    host.observe(&Desired::FileSystemReady(fs.clone())).unwrap().volume.unwrap()
}

fn is_active(host: &Arc<dyn Host>, fs: &FileSystem) -> bool {
    state(host, fs).lvm.unwrap().active().is_some()
}

fn verbs(steps: &[String]) -> Vec<&str> {
    steps.iter().map(|step| step.split([':', '/']).next().unwrap_or_default()).collect()
}

fn starts(steps: &[String], with: &[&str]) {
    assert_eq!(steps.len(), with.len(), "{steps:#?}");
    for (step, start) in steps.iter().zip(with) {
        assert!(step.starts_with(start), "{step} does not start with {start}: {:?}", verbs(steps));
    }
}

/// Two mounts use a volume: only the last unmount deactivates it and runs the hooks around the deactivation.
pub fn mounted_twice(world: &dyn World) {
    let fs = striped(world);
    settle(&world.rabbit(), &Desired::FileSystemReady(fs.clone()));
    let compute = world.compute("compute-1");
    let [first, last] = ["a", "b"].map(|name| {
        let mut mount = mount_of(&fs, world.point(name));
        mount.hooks.push(hook(mount.scope.clone(), HookPoint::PostDeactivate, "true"));
        settle(&compute, &Desired::Mounted(mount.clone()));
        mount
    });
    let steps = settle(&compute, &Desired::Unmounted(first));
    starts(&steps, &["unmount", "remove mount point", "forget hook"]);
    assert!(is_active(&compute, &fs));
    assert!(settle(&compute, &Desired::Mounted(last.clone())).is_empty());
    let steps = settle(&compute, &Desired::Unmounted(last));
    let gone = ["unmount", "remove mount point", "deactivate", "run hook", "forget hook"];
    starts(&steps, &gone);
    assert!(!is_active(&compute, &fs));
}

/// A volume is created, mounted on a compute, unmounted and removed. It is active only on nodes that mount it.
pub fn life(world: &dyn World) {
    let mut fs = striped(world);
    fs.hooks.push(hook(fs.scope(), HookPoint::PostSetup, "chmod 0700 $MOUNT_PATH"));
    fs.hooks.push(hook(fs.scope(), HookPoint::PreTeardown, "test -d $MOUNT_PATH"));
    let rabbit = world.rabbit();
    let steps = settle(&rabbit, &Desired::FileSystemReady(fs.clone()));
    let created = [
        "make physical volume",
        "make physical volume",
        "make volume group",
        "make logical volume",
        "activate",
        "open hook",
        "make xfs",
        "create mount point",
        "mount xfs",
        "run hook postSetup",
        "unmount",
        "remove mount point",
        "note that the file system is made",
        "deactivate",
    ];
    starts(&steps, &created);
    assert!(!is_active(&rabbit, &fs));
    assert!(settle(&rabbit, &Desired::FileSystemReady(fs.clone())).is_empty());

    let compute = world.compute("compute-1");
    let mount = mount_of(&fs, world.point("volume"));
    let steps = settle(&compute, &Desired::Mounted(mount.clone()));
    starts(&steps, &["activate", "create mount point", "mount xfs", "change the owner"]);
    assert!(is_active(&compute, &fs));
    assert!(settle(&compute, &Desired::Mounted(mount.clone())).is_empty());
    let steps = settle(&compute, &Desired::Unmounted(mount.clone()));
    starts(&steps, &["unmount", "remove mount point", "deactivate"]);
    assert!(!is_active(&compute, &fs));
    assert!(settle(&compute, &Desired::Unmounted(mount)).is_empty());

    let steps = settle(&rabbit, &Desired::FileSystemGone(fs.clone()));
    let gone = [
        "activate",
        "create mount point",
        "mount xfs",
        "run hook preTeardown",
        "unmount",
        "remove mount point",
        "deactivate",
        "remove logical volume",
        "remove volume group",
        "remove physical volume",
        "remove physical volume",
        "forget hook",
    ];
    starts(&steps, &gone);
    assert!(settle(&rabbit, &Desired::FileSystemGone(fs.clone())).is_empty());
    let report = state(&rabbit, &fs).lvm.unwrap().report.unwrap();
    assert!(report.physical.is_empty() && report.groups.is_empty(), "{report:?}");
}

/// A group with two volumes is removed together with its last volume.
pub fn shared_group(world: &dyn World) {
    let whole = striped(world);
    let file_system_at = |index: u32| {
        let mut fs = whole.clone();
        fs.id = FileSystemId::derive(uid(2), &world.label(), "shared", index);
        fs.temporary = world.temporary(&format!("shared-{index}"));
        fs.volume.logical = format!("lv-{index}");
        let mut lines = lines(&fs.volume);
        let (group, name) = (&fs.volume.group, &fs.volume.logical);
        lines.lv_create = command(&format!(
            "--zero n --activate n --size 304M --stripes $DEVICE_NUM --name {name} {group}"
        ));
        fs.volume.layer = VolumeLayer::Lvm(Box::new(lines));
        fs
    };
    let (zero, other) = (file_system_at(0), file_system_at(1));
    let rabbit = world.rabbit();
    settle(&rabbit, &Desired::FileSystemReady(zero.clone()));
    let steps = settle(&rabbit, &Desired::FileSystemReady(other.clone()));
    starts(&steps, &["make logical volume", "activate", "make xfs", "note", "deactivate"]);

    let mount = mount_of(&other, world.point("other"));
    settle(&rabbit, &Desired::Mounted(mount.clone()));
    let steps = settle(&rabbit, &Desired::FileSystemGone(zero));
    starts(&steps, &["remove logical volume"]);
    assert!(is_active(&rabbit, &other), "the other volume stays mounted");
    assert!(settle(&rabbit, &Desired::Mounted(mount.clone())).is_empty());
    // A volume that is mounted is not removed.
    assert!(converge(&rabbit, &Desired::FileSystemGone(other.clone())).is_err());
    settle(&rabbit, &Desired::Unmounted(mount));
    let steps = settle(&rabbit, &Desired::FileSystemGone(other));
    starts(
        &steps,
        &[
            "remove logical volume",
            "remove volume group",
            "remove physical volume",
            "remove physical volume",
        ],
    );
}

/// A raw volume is never active on its rabbit; on a compute it belongs to the user.
pub fn raw(world: &dyn World) {
    let mut fs = striped(world);
    fs.kind = FileSystemKind::Raw;
    fs.mkfs = None;
    let rabbit = world.rabbit();
    let steps = settle(&rabbit, &Desired::FileSystemReady(fs.clone()));
    assert_eq!(steps.len(), 4, "{steps:#?}");
    let compute = world.compute("compute-1");
    let mount = mount_of(&fs, world.point("raw"));
    let steps = settle(&compute, &Desired::Mounted(mount.clone()));
    starts(&steps, &["activate", "create mount point", "mount raw", "change the owner"]);
    assert!(settle(&compute, &Desired::Mounted(mount.clone())).is_empty());
    let steps = settle(&compute, &Desired::Unmounted(mount));
    starts(&steps, &["change the owner", "unmount", "remove mount point", "deactivate"]);
    settle(&rabbit, &Desired::FileSystemGone(fs));
}

/// No volume is created over a foreign group, and no volume is mounted before the rabbit has created it.
pub fn refused(world: &dyn World) {
    let fs = striped(world);
    let rabbit = world.rabbit();
    let mount = mount_of(&fs, world.point("early"));
    let rejection = rejected(world, &rabbit, &Desired::Mounted(mount.clone()));
    assert!(matches!(rejection, Rejection::NoVolume { .. }), "{rejection}");

    let mut theirs = fs.clone();
    theirs.volume.group = group(world, "theirs");
    theirs.volume.layer = VolumeLayer::Lvm(Box::new(lines(&theirs.volume)));
    settle(&rabbit, &Desired::FileSystemReady(theirs.clone()));
    for desired in [
        Desired::FileSystemReady(fs.clone()),
        Desired::FileSystemGone(fs.clone()),
        Desired::Mounted(mount),
    ] {
        let rejection = rejected(world, &rabbit, &desired);
        let names_the_group = matches!(&rejection, Rejection::ForeignGroup { group, .. } if *group == theirs.volume.group);
        assert!(names_the_group || matches!(rejection, Rejection::NoVolume { .. }), "{rejection}");
    }
    settle(&rabbit, &Desired::FileSystemGone(theirs));
}

/// After a crash between lvcreate and mkfs, and after a restart of the node, the creation continues.
pub fn goes_on(world: &dyn World) {
    let fs = striped(world);
    let rabbit = world.rabbit();
    let plan =
        Converger::new(Arc::clone(&rabbit)).plan(&Desired::FileSystemReady(fs.clone())).unwrap();
    for step in &plan {
        rabbit.apply(step).unwrap();
        let next = Converger::new(Arc::clone(&rabbit))
            .plan(&Desired::FileSystemReady(fs.clone()))
            .unwrap();
        assert!(!next.iter().any(|planned| planned == step), "{step} again");
    }
    settle(&rabbit, &Desired::FileSystemReady(fs.clone()));
    let mount = mount_of(&fs, world.point("kept"));
    settle(&rabbit, &Desired::Mounted(mount.clone()));
    // A volume that is mounted keeps its device.
    assert!(settle(&rabbit, &Desired::FileSystemReady(fs.clone())).is_empty());
    settle(&rabbit, &Desired::Unmounted(mount));
    settle(&rabbit, &Desired::FileSystemGone(fs));
}

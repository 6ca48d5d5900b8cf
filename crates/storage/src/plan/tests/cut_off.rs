//! Tests the plans after LVM's commands were killed: the agent continues with what the command left, or removes it and
//! creates the object again.

use super::{
    repair::{device, logical, observation, raid, repaired},
    *,
};
use crate::{
    observed::{Activation, LogicalVolume, LvmState, Membership, PhysicalVolume, Unfinished},
    step::VolumeAction,
};

fn state(observed: &mut Observed) -> &mut LvmState {
    observed.volume.as_mut().unwrap().lvm.as_mut().unwrap()
}

fn kinds(desired: &Desired, observed: &Observed) -> Vec<&'static str> {
    plan(desired, observed).unwrap().iter().map(Step::kind).collect()
}

#[test]
fn a_label_that_an_interrupted_vgcreate_marked_is_wiped_before_the_group_is_created() {
    let fs = raid(0);
    let mut observed = observation(&fs, &[], Vec::new());
    let physical = |nsid, membership| PhysicalVolume { device: device(nsid).path, membership };
    let report = state(&mut observed).report.as_mut().unwrap();
    report.groups.clear();
    report.physical = vec![physical(1, Membership::Marked), physical(3, Membership::Free)];
    state(&mut observed).activation = Activation::Inactive;
    let ready = Desired::FileSystemReady(fs.clone());
    assert_eq!(kinds(&ready, &observed), ["unmark", "pvcreate", "lvcreate"]);
    // Rejected while a device is absent, because the metadata of the group may be on that device.
    let volume = observed.volume.as_mut().unwrap();
    volume.devices.pop();
    volume.missing.push(fs.volume.namespaces[1].clone());
    assert!(matches!(plan(&ready, &observed), Err(Rejection::NoDevice { .. })));
}

#[test]
fn a_label_that_an_interrupted_vgextend_marked_is_wiped_before_the_group_is_extended() {
    let fs = raid(0);
    let mut observed = observation(&fs, &[(1, false), (3, false)], vec![logical(0, "partial")]);
    let new = &mut state(&mut observed).report.as_mut().unwrap().physical[1];
    new.membership = Membership::Marked;
    assert_eq!(
        kinds(&Desired::FileSystemReady(fs), &observed),
        ["unmark", "pvcreate", "vgextend", "repair", "vgreduce"]
    );
}

#[test]
fn an_empty_group_that_is_not_yet_shared_is_created_again() {
    let shared = |line| {
        let mut fs = raid(0);
        let VolumeLayer::Lvm(lines) = &mut fs.volume.layer else { unreachable!() };
        lines.vg_create = command(line);
        fs
    };
    let all = [(1, false), (3, false)];
    let next_command = |fs: &FileSystem, volumes: Vec<_>, is_shared| {
        let mut observed = observation(fs, &all, volumes);
        let group = &mut state(&mut observed).report.as_mut().unwrap().groups[0];
        (group.missing, group.is_shared) = (0, is_shared);
        repaired(fs, &observed)[0].clone()
    };
    let fs = shared("--shared $VG $DEVICE_LIST");
    assert_eq!(next_command(&fs, Vec::new(), false), "vgremove vg");
    assert_eq!(next_command(&fs, Vec::new(), true), "lvcreate vg/lv-0");
    assert_eq!(next_command(&fs, vec![logical(1, "")], false), "lvcreate vg/lv-0");
    assert_eq!(next_command(&shared("$VG $DEVICE_LIST"), Vec::new(), false), "lvcreate vg/lv-0");
}

/// Returns a RAID whose parts are visible, as a killed `lvcreate` leaves it.
fn half_made(tags: Vec<String>) -> Observed {
    let part = |name: &str| LogicalVolume { name: name.into(), ..LogicalVolume::default() };
    let whole = LogicalVolume { tags, ..logical(0, "") };
    let all = [(1, false), (3, false)];
    let volumes = vec![whole, part("lv-0_rmeta_0"), part("lv-0_rmeta_1")];
    let mut observed = observation(&raid(0), &all, volumes);
    state(&mut observed).report.as_mut().unwrap().groups[0].missing = 0;
    state(&mut observed).activation = Activation::Inactive;
    observed
}

#[test]
fn an_unfinished_raid_without_a_file_system_tag_is_created_again() {
    let fs = raid(0);
    let anew = repaired(&fs, &half_made(Vec::new()));
    assert_eq!(anew, ["lvremove vg/lv-0", "lvcreate vg/lv-0"]);
    let noted = repaired(&fs, &half_made(vec![LogicalVolume::tag_of(fs_id(1))]));
    assert!(!noted.iter().any(|step| step.starts_with("lvremove")), "{noted:?}");
    let mut theirs = half_made(Vec::new());
    state(&mut theirs).report.as_mut().unwrap().groups[0].tags.clear();
    let theirs = repaired(&fs, &theirs);
    assert!(!theirs.iter().any(|step| step.starts_with("lvremove")), "{theirs:?}");
}

#[test]
fn parts_without_their_raid_are_removed_before_lvcreate() {
    let mut observed = half_made(Vec::new());
    state(&mut observed).report.as_mut().unwrap().groups[0].volumes.remove(0);
    let anew = repaired(&raid(0), &observed);
    assert_eq!(anew, ["lvremove vg/lv-0_rmeta_0", "lvremove vg/lv-0_rmeta_1", "lvcreate vg/lv-0"]);
}

fn mount_of(fs: &FileSystem) -> Mount {
    let source = MountSource::Volume { volume: fs.volume.clone(), id: fs.id };
    Mount { source, hooks: Vec::new(), owner: None, ..mount() }
}

/// Returns a volume with a file system but without a usable device.
fn not_active(activation: Activation) -> Observed {
    let tag = LogicalVolume::tag_of(fs_id(0));
    let mut observed = half_made(vec![tag]);
    observed.hooks_open = false;
    let lvm_state = state(&mut observed);
    lvm_state.report.as_mut().unwrap().groups[0].volumes.truncate(1);
    lvm_state.activation = activation;
    observed
}

const NUMBER: DeviceNumber = DeviceNumber { major: 253, minor: 1 };

fn with_mappings(names: &[&str]) -> Observed {
    let unfinished = |name: &&str| Unfinished { name: (*name).into(), number: NUMBER };
    not_active(Activation::Unfinished(names.iter().map(unfinished).collect()))
}

fn still() -> Observed {
    not_active(Activation::Suspended(NUMBER))
}

#[test]
fn mappings_of_a_killed_activation_are_removed_before_the_next_activation() {
    let mount = Desired::Mounted(mount_of(&raid(0)));
    let parts = ["vg-lv--0", "vg-lv--0_rmeta_0"];
    let steps = kinds(&mount, &with_mappings(&parts));
    assert_eq!(steps[..3], ["remove-mapping", "remove-mapping", VolumeAction::Activate.kind()]);
    let steps = kinds(&mount, &still());
    assert_eq!(steps[0], VolumeAction::Activate.kind(), "LVM resumes the suspended device");
}

#[test]
fn mappings_of_a_killed_repair_are_removed_before_the_next_repair() {
    let ready = Desired::FileSystemReady(raid(0));
    let mut observed =
        observation(&raid(0), &[(1, false), (3, false)], vec![logical(0, "partial")]);
    let name = "vg-lv--0_rmeta_2".to_owned();
    assert_eq!(kinds(&ready, &observed)[0], "repair");
    let Activation::Active(mapped) = &mut state(&mut observed).activation else { unreachable!() };
    mapped.unused_parts.push(Unfinished { name, number: NUMBER });
    assert_eq!(kinds(&ready, &observed), ["remove-mapping", "refresh"]);
    // While the volume is not active, the agent cannot see leftover mappings, and they would make the repair fail. The
    // plan therefore activates the volume first.
    state(&mut observed).activation = Activation::Inactive;
    assert_eq!(kinds(&ready, &observed), [VolumeAction::Activate.kind()]);
}

#[test]
fn parts_that_a_repair_replaced_are_removed_before_the_lost_device() {
    let old = |name: &str| LogicalVolume { name: name.into(), ..logical(0, "partial") };
    let volumes = |other: &str| {
        let tags = vec![LogicalVolume::tag_of(fs_id(1))];
        vec![LogicalVolume { tags, ..logical(0, "") }, old("lv-0_rimage_1_extracted"), old(other)]
    };
    let observation_with =
        |other: &str| observation(&raid(0), &[(1, false), (3, false)], volumes(other));
    let replaced = ["lvremove vg/lv-0_rimage_1_extracted", "lvremove vg/lv-0_rmeta_1_extracted"];
    let steps = repaired(&raid(0), &observation_with("lv-0_rmeta_1_extracted"));
    assert_eq!(steps, [&replaced[..], &["vgreduce vg"]].concat());
    let mut observed = observation_with("lv-0_rmeta_1_extracted");
    state(&mut observed).activation = Activation::Suspended(NUMBER);
    assert_eq!(
        repaired(&raid(0), &observed),
        ["lvchange vg/lv-0"],
        "the suspended device has the parts open"
    );
    // A part of another volume remains until that volume is repaired, and the lost device stays in the group until
    // then.
    assert_eq!(repaired(&raid(0), &observation_with("lv-1_rmeta_1_extracted")), replaced[..1]);
}

#[test]
fn mappings_of_a_killed_activation_are_removed_at_the_unmount() {
    let unmount = Desired::Unmounted(mount_of(&raid(0)));
    assert_eq!(kinds(&unmount, &with_mappings(&["vg-lv--0"])), ["remove-mapping"]);
    assert_eq!(kinds(&unmount, &still()), ["activate"]);
    assert_eq!(kinds(&unmount, &not_active(Activation::Inactive)), [""; 0]);
}

#[test]
fn an_unmount_resumes_the_suspended_device_of_the_mount_first() {
    let mut fs = raid(0);
    fs.kind = FileSystemKind::Raw;
    let mut mount = Mount { kind: FileSystemKind::Raw, ..mount_of(&fs) };
    let mut observed = still();
    let raw = MountedThing {
        kind: FileSystemKind::Raw.as_str().into(),
        device: NUMBER,
        ..xfs_mount(fs_id(0))
    };
    let path = PathState::File { empty: false };
    observed.target = Some(TargetState { path, mounted: Some(raw), ..TargetState::default() });
    assert_eq!(kinds(&Desired::Unmounted(mount.clone()), &observed), ["activate"]);
    // Without a line that could resume the device, the plan begins with the unmount.
    let MountSource::Volume { volume, .. } = &mut mount.source else { unreachable!() };
    let VolumeLayer::Lvm(lines) = &mut volume.layer else { unreachable!() };
    lines.activate = None;
    assert_eq!(kinds(&Desired::Unmounted(mount), &observed)[0], "unmount");
}

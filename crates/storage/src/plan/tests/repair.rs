//! Tests the repair and the removal of volumes that lost a device.

use crate::{
    desired::LvmLines,
    observed::{
        Activation, LogicalVolume, LvmReport, LvmState, Mapped, Membership, Percent,
        PhysicalVolume, VolumeGroup, WARRENS,
    },
};

use super::*;

/// Namespaces of the RAID: namespace 3 replaces the lost namespace 2.
const OURS: [u32; 2] = [1, 3];

pub(super) fn device(nsid: u32) -> BlockDevice {
    let number = DeviceNumber { major: 259, minor: nsid };
    BlockDevice { namespace: id(nsid), path: format!("/dev/nvme{nsid}n1").into(), number }
}

pub(super) fn raid(index: u32) -> FileSystem {
    let lines = LvmLines {
        pv_create: command("$DEVICE"),
        vg_extend: command("$VG $DEVICE"),
        vg_reduce: command("--removemissing $VG"),
        lv_create: command("-n $LV $VG"),
        lv_repair: command("$VG/$LV"),
        activate: command("-ay $VG/$LV"),
        ..LvmLines::default()
    };
    let hook = |phase| {
        let id = HookId { scope: HookScope::file_system(&fs_id(index)), phase, index: 0 };
        Hook { id, command: command("look at $MOUNT_PATH").unwrap() }
    };
    FileSystem {
        id: fs_id(index),
        volume: Volume {
            logical: format!("lv-{index}"),
            namespaces: OURS.map(id).to_vec(),
            layer: VolumeLayer::Lvm(Box::new(lines)),
            ..volume()
        },
        hooks: vec![hook(HookPoint::PreTeardown)],
        ..file_system()
    }
}

/// Returns a logical volume of the group; `trouble` is the health status that LVM reports for it.
pub(super) fn logical(index: u32, trouble: &str) -> LogicalVolume {
    LogicalVolume {
        name: format!("lv-{index}"),
        tags: vec![LogicalVolume::tag_of(fs_id(index))],
        is_raid: true,
        synced: Some(Percent::ALL),
        trouble: Some(trouble.to_owned()).filter(|text| !text.is_empty()),
        ..LogicalVolume::default()
    }
}

/// Returns an observation of the group without namespace 2; `members` are the devices that the group still has.
pub(super) fn observation(
    of: &FileSystem,
    members: &[(u32, bool)],
    volumes: Vec<LogicalVolume>,
) -> Observed {
    let physical = members.iter().map(|&(nsid, is_stale)| PhysicalVolume {
        device: device(nsid).path,
        membership: if is_stale { Membership::Stale } else { Membership::Of }("vg".into()),
    });
    let group = VolumeGroup {
        name: "vg".into(),
        tags: vec![WARRENS.into()],
        is_shared: false,
        missing: 1,
        volumes,
    };
    let (path, number) = ("/dev/dm-0".into(), DeviceNumber { major: 253, minor: 0 });
    let lvm = LvmState {
        activation: Activation::Active(Mapped {
            path,
            number,
            foreign_devices: Vec::new(),
            unused_parts: Vec::new(),
        }),
        report: Some(LvmReport { physical: physical.collect(), groups: vec![group] }),
        ..LvmState::default()
    };
    let volume = VolumeState {
        devices: OURS.map(device).to_vec(),
        lvm: Some(lvm),
        signature: Some(Signature::Ours(of.id)),
        ..VolumeState::default()
    };
    Observed { volume: Some(volume), hooks_open: true, ..Observed::default() }
}

/// Returns the LVM steps that make the file system `of` ready, each with the object that it changes.
pub(super) fn repaired(of: &FileSystem, observed: &Observed) -> Vec<String> {
    let steps = plan(&Desired::FileSystemReady(of.clone()), observed).unwrap();
    let describe = |step: &Step| match step {
        Step::Volume { action, on, .. } => Some(format!("{} {on}", action.command())),
        _ => None,
    };
    steps.iter().filter_map(describe).collect()
}

#[test]
fn every_volume_of_a_group_is_repaired_and_the_last_repair_removes_the_lost_device() {
    let (first, second) = (raid(0), raid(1));
    let both = || vec![logical(0, "partial"), logical(1, "partial")];
    let new = repaired(&first, &observation(&first, &[(1, false)], both()));
    assert_eq!(
        new,
        ["pvcreate /dev/nvme3n1", "vgextend /dev/nvme3n1", "lvconvert --repair vg/lv-0"]
    );
    let all = [(1, false), (3, false)];
    let second_partial = || vec![logical(0, ""), logical(1, "partial")];
    assert_eq!(
        repaired(&first, &observation(&first, &all, second_partial())),
        [""; 0],
        "the lost device stays in the group until the other volume is repaired"
    );
    let last = repaired(&second, &observation(&second, &all, second_partial()));
    assert_eq!(last, ["lvconvert --repair vg/lv-1", "vgreduce vg"]);
}

#[test]
fn an_interrupted_repair_continues_with_the_next_step() {
    let fs = raid(0);
    let all = [(1, false), (3, false)];
    let extended = repaired(&fs, &observation(&fs, &all, vec![logical(0, "partial")]));
    assert_eq!(extended, ["lvconvert --repair vg/lv-0", "vgreduce vg"]);
    let converted = repaired(&fs, &observation(&fs, &all, vec![logical(0, "")]));
    assert_eq!(converted, ["vgreduce vg"]);
}

#[test]
fn a_device_that_came_back_after_the_group_continued_without_it_is_not_added_again() {
    let fs = raid(0);
    let returned = observation(&fs, &[(1, false), (3, true)], vec![logical(0, "partial")]);
    assert_eq!(repaired(&fs, &returned), [""; 0]);
}

#[test]
fn a_volume_that_lost_a_device_is_removed_without_activation() {
    let fs = raid(0);
    let mut observed = observation(&fs, &[(1, false)], vec![logical(0, "partial")]);
    let state = observed.volume.as_mut().unwrap();
    (state.devices, state.missing) = (vec![device(1)], vec![id(3)]);
    state.signature = None;
    state.lvm.as_mut().unwrap().activation = Activation::Inactive;
    let steps = lines(plan(&Desired::FileSystemGone(fs), &observed));
    assert!(!steps.iter().any(|step| step.contains("look at")), "{steps:?}");
    assert!(steps.last().unwrap().starts_with("forget"), "{steps:?}");
}

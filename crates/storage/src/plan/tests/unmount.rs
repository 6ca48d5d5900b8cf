//! Tests which of the existing mounts an unmount removes.

use super::*;
use crate::observed::{Activation, LvmReport, LvmState, Mapped};

/// Each row has the mounts at one path, topmost first, and the expected result: the steps, or the path of the foreign
/// mount that covers the unit's own mount.
#[test]
fn an_unmount_removes_its_own_uncovered_mounts_and_rejects_covered_ones() {
    let bare = Mount { hooks: Vec::new(), owner: None, ..mount() };
    let (ours, foreign) = (xfs_mount(fs_id(0)), tmpfs());
    let unmount = "unmount /mnt/nnf/wf-0: /mnt/nnf/wf-0";
    let remove = "remove mount point /mnt/nnf/wf-0";
    let covered = Err("/mnt/nnf/wf-0");
    type Row<'a> = (&'a [&'a MountedThing], Result<&'a [&'a str], &'a str>);
    let table: [Row<'_>; 8] = [
        (&[], Ok(&[remove])),
        (&[&ours], Ok(&[unmount, remove])),
        (&[&ours, &ours], Ok(&[unmount, unmount, remove])),
        (&[&foreign], Ok(&[])),
        (&[&foreign, &foreign], Ok(&[])),
        (&[&ours, &foreign], Ok(&[unmount])),
        (&[&foreign, &ours], covered),
        (&[&ours, &foreign, &ours], covered),
    ];
    for (stack, expected) in table {
        let mut stack = stack.iter().map(|there| (*there).clone());
        let mounted = stack.next();
        let target = TargetState {
            path: PathState::Directory { empty: mounted.is_none() },
            mounted,
            beneath: stack.collect(),
            ..TargetState::default()
        };
        let steps = plan(&Desired::Unmounted(bare.clone()), &observation(target.clone()));
        assert_eq!(steps_or_cover(steps), as_text(expected), "{target:?}");

        // The temporary mount of a file system is treated like any other mount.
        let gone = Desired::FileSystemGone(FileSystem {
            temporary: point("/mnt/nnf/wf-0"),
            ..file_system()
        });
        let observed = Observed {
            target: None,
            temporary: Some(target.clone()),
            ..observation(target.clone())
        };
        assert_eq!(steps_or_cover(plan(&gone, &observed)), as_text(expected), "{target:?}");
    }
}

fn as_text(expected: Result<&[&str], &str>) -> Result<Vec<String>, String> {
    let owned = |steps: &[&str]| steps.iter().map(|step| (*step).to_owned()).collect();
    expected.map(owned).map_err(str::to_owned)
}

/// Returns the steps; or, as the error, the path of the mount that covers the unit's own mount.
fn steps_or_cover(steps: Result<Vec<Step>, Rejection>) -> Result<Vec<String>, String> {
    match steps {
        Ok(steps) => Ok(lines(Ok(steps))),
        Err(Rejection::Covered { at, .. }) => Err(at.display().to_string()),
        Err(other) => panic!("{other}"),
    }
}

/// A foreign mount over a parent directory covers the unit's own mount, like a mount over the same path.
#[test]
fn an_unmount_rejects_a_mount_beneath_a_covered_parent_directory() {
    let bare = Mount { hooks: Vec::new(), ..mount() };
    let at = |path: PathState, beneath: Vec<MountedThing>| {
        let target = TargetState { path, beneath, ..TargetState::default() };
        steps_or_cover(plan(&Desired::Unmounted(bare.clone()), &observation(target)))
    };
    let through = || PathState::ThroughMount { at: "/mnt/nnf/parent".into() };
    assert_eq!(at(through(), vec![xfs_mount(fs_id(0))]), Err("/mnt/nnf/parent".into()));
    assert_eq!(at(through(), vec![tmpfs(), xfs_mount(fs_id(1))]), Ok(vec![]));
    assert_eq!(at(PathState::Absent, vec![xfs_mount(fs_id(0))]), Err("/mnt/nnf".into()));
}

/// The unit's own mount no longer exists, and a foreign mount is in its place: the hooks of the own mount run, and the
/// foreign mount stays.
#[test]
fn hooks_of_a_mount_that_a_foreign_mount_replaced_still_run() {
    let target = TargetState { mounted: Some(tmpfs()), ..mounted_by(Owner { uid: 0, gid: 0 }) };
    let observed = Observed { hooks_open: true, ..observation(target) };
    let steps = lines(plan(&Desired::Unmounted(mount()), &observed));
    let hooks = [
        HookPoint::PreUnmount,
        HookPoint::PostUnmount,
        HookPoint::PreDeactivate,
        HookPoint::PostDeactivate,
    ]
    .map(|phase| format!("run hook {}[0]: run /dev/loop7 /mnt/nnf/wf-0", phase.as_str()));
    assert_eq!(steps[..4], hooks);
    assert_eq!(steps[4..], [format!("forget hook records {}", scope_name())]);
}

#[test]
fn the_clean_up_unmounts_the_latest_mount_first() {
    let anonymous = unknown();
    let mounts = vec![
        (point("/mnt/nnf/a"), xfs_mount(fs_id(0))),
        (point("/mnt/nnf/theirs"), anonymous),
        (point("/mnt/nnf/a/b"), xfs_mount(fs_id(1))),
        (point("/mnt/nnf/kept"), xfs_mount(fs_id(2))),
    ];
    let observed = Observed { mounts, ..Observed::default() };
    let expected = [
        "unmount /mnt/nnf/a/b: /mnt/nnf/a/b",
        "remove mount point /mnt/nnf/a/b",
        "unmount /mnt/nnf/a: /mnt/nnf/a",
        "remove mount point /mnt/nnf/a",
    ];
    assert_eq!(
        lines(plan(&Desired::OnlyMounts(vec![point("/mnt/nnf/kept")]), &observed)),
        expected
    );
}

#[test]
fn the_clean_up_rejects_a_covered_mount_only_when_no_other_unmount_remains() {
    let ours = |path, index| (point(path), xfs_mount(fs_id(index)));
    let mounts = [
        ours("/mnt/nnf/same", 0),
        ours("/mnt/nnf/wf/node-0", 1),
        ours("/mnt/nnf/kept/beneath", 2),
        ours("/mnt/nnf/free", 3),
        (point("/mnt/nnf/same"), tmpfs()),
        (point("/mnt/nnf/wf"), tmpfs()),
        ours("/mnt/nnf/kept", 4),
    ];
    let only = |mounts: Vec<_>| {
        let observed = Observed { mounts, ..Observed::default() };
        plan(&Desired::OnlyMounts(vec![point("/mnt/nnf/kept")]), &observed)
    };
    let expected = ["unmount /mnt/nnf/free: /mnt/nnf/free", "remove mount point /mnt/nnf/free"];
    assert_eq!(lines(only(mounts.to_vec())), expected);
    for (covered, at) in [(0, 4), (1, 5), (2, 6)] {
        let rejection = only(vec![mounts[covered].clone(), mounts[at].clone()]).unwrap_err();
        let (target, at) = (mounts[covered].0.clone(), mounts[at].0.path());
        assert_eq!(rejection, Rejection::Covered { target, at });
    }
}

/// The object names no namespaces and LVM finds no group, so only the mapping itself shows whether the volume still
/// lies on a device. A mapping that lies on a device stays.
#[test]
fn when_lvm_finds_no_group_only_a_mapping_that_lies_on_no_device_is_removed() {
    let steps = |foreign_devices: &[&str]| {
        let mut mount = Mount { hooks: Vec::new(), ..mount() };
        let layer = VolumeLayer::Lvm(Box::default());
        let volume = Volume { namespaces: vec![], layer, ..volume() };
        mount.source = MountSource::Volume { volume, id: fs_id(0) };
        let active = Mapped {
            path: "/dev/mapper/vg-lv".into(),
            number: DeviceNumber { major: 253, minor: 0 },
            foreign_devices: foreign_devices.iter().map(|&name| name.to_owned()).collect(),
            unused_parts: Vec::new(),
        };
        let (activation, report) = (Activation::Active(active), Some(LvmReport::default()));
        let lvm = Some(LvmState { activation, report, ..LvmState::default() });
        let volume = Some(VolumeState { lvm, ..VolumeState::default() });
        lines(plan(&Desired::Unmounted(mount), &Observed { volume, ..Observed::default() }))
    };
    assert_eq!(steps(&[]), ["remove mapping vg-lv, which leads to no volume"]);
    assert_eq!(steps(&["nvme0n1"]), [""; 0]);
}

//! Tests volume groups without volumes, whose lock space the sites keep open on computes.

use crate::{
    desired::LvmLines,
    observed::{LvmReport, LvmState, Membership, PhysicalVolume, VolumeGroup, WARRENS},
};

use super::{repair::device, *};

/// Returns the mount of a group without volumes: only the lines of the lock space are set.
fn lock() -> Mount {
    let lines = LvmLines {
        lock_start: command("--lock-start vg"),
        lock_stop: command("--lock-stop vg"),
        leaves_lock_space: true,
        ..LvmLines::default()
    };
    let volume = Volume { layer: VolumeLayer::Lvm(Box::new(lines)), ..volume() };
    Mount {
        kind: FileSystemKind::Raw,
        source: MountSource::Volume { volume, id: fs_id(0) },
        mount: None,
        unmount: None,
        hooks: Vec::new(),
        ..mount()
    }
}

/// Returns an observation of the group `vg`, or of another group on the same device.
fn on_compute(group: &str, in_lock_space: bool) -> Observed {
    let physical =
        PhysicalVolume { device: device(1).path, membership: Membership::Of(group.into()) };
    let groups = vec![VolumeGroup {
        name: group.into(),
        tags: vec![WARRENS.into()],
        is_shared: true,
        missing: 0,
        volumes: Vec::new(),
    }];
    let report = Some(LvmReport { physical: vec![physical], groups });
    let lvm = LvmState { in_lock_space, report, ..LvmState::default() };
    let volume = VolumeState { devices: vec![device(1)], lvm: Some(lvm), ..VolumeState::default() };
    Observed { volume: Some(volume), target: Some(TargetState::default()), ..Observed::default() }
}

#[test]
fn a_mount_without_mount_and_activate_lines_only_joins_the_lock_space() {
    let mounted = Desired::Mounted(lock());
    let joining = lines(plan(&mounted, &on_compute("vg", false)));
    assert_eq!(joining.len(), 1, "{joining:?}");
    assert!(joining[0].contains("--lock-start vg"), "{joining:?}");
    assert_eq!(lines(plan(&mounted, &on_compute("vg", true))), [""; 0]);
    let unmounted = Desired::Unmounted(lock());
    let leaving = lines(plan(&unmounted, &on_compute("vg", true)));
    assert_eq!(leaving.len(), 1, "{leaving:?}");
    assert!(leaving[0].contains("--lock-stop vg"), "{leaving:?}");
    assert_eq!(lines(plan(&unmounted, &on_compute("vg", false))), [""; 0]);
}

#[test]
fn a_missing_or_foreign_group_is_not_joined() {
    let mounted = Desired::Mounted(lock());
    let foreign = plan(&mounted, &on_compute("other", false)).unwrap_err();
    assert!(matches!(foreign, Rejection::ForeignGroup { .. }), "{foreign}");
    let mut without = on_compute("vg", false);
    let lvm = without.volume.as_mut().unwrap().lvm.as_mut().unwrap();
    lvm.report = Some(LvmReport::default());
    let missing = plan(&mounted, &without).unwrap_err();
    assert!(matches!(missing, Rejection::NoVolume { .. }), "{missing}");
    let with_a_mount_line = Mount { mount: command("$DEVICE $MOUNT_PATH"), ..lock() };
    let absent = plan(&Desired::Mounted(with_a_mount_line), &on_compute("vg", false));
    assert!(matches!(absent.unwrap_err(), Rejection::NoVolume { .. }), "a mount needs a volume");
}

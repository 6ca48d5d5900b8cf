mod hooks;
mod index;
mod paths;

use std::collections::BTreeMap;

use api::{ClientMount, client_mount::MountState};
use k8s_time::deleted;
use storage::{
    desired::{FileSystemId, FileSystemKind, Hook, HookPoint, Mount, MountSource, Owner},
    template::SiteCommand,
};

use super::*;
use crate::{
    site::Side,
    testing::{
        NO_PROFILE, compute_gfs2, compute_lustre, compute_raw, compute_xfs, profile, rabbit_gfs2,
        rabbit_index, references, site, with_index_root,
    },
    volumes::Volumes,
};

const OWNER: &str = "b07f6a0e-59f1-4f0a-b6a4-6c1f7a9e2d15";
const PATH: &str = "/mnt/nnf/6d1c1b52-0a44-4c7e-8a5c-2f5a1f0be7d3-0";

mod k8s_time {
    use api::ClientMount;

    /// Returns the object with a deletion time: deleted, but kept by its finalizer.
    pub(super) fn deleted(object: &ClientMount) -> ClientMount {
        let mut json = serde_json::to_value(object).unwrap();
        json["metadata"]["deletionTimestamp"] = "2026-11-20T12:00:00Z".into();
        serde_json::from_value(json).unwrap()
    }
}

fn on_compute(object: &ClientMount) -> Result<MountUnits, ObjectError> {
    desired(object, Ok(&profile()), &no_references, &site(object, Side::Compute))
}

fn on_rabbit(object: &ClientMount) -> MountUnits {
    desired(object, Ok(&profile()), &references, &site(object, Side::Rabbit)).unwrap()
}

fn only_mount(units: &MountUnits) -> &Mount {
    units.mounts[0].as_ref().unwrap()
}

/// Applies `change` to the fixture, and returns the error of its first mount.
fn error_of(change: impl FnOnce(&mut ClientMount)) -> String {
    let mut object = compute_xfs();
    change(&mut object);
    let units = on_compute(&object).unwrap();
    assert!(units.are_refused(), "{:?}", units.mounts);
    units.mounts[0].as_ref().unwrap_err().to_string()
}

fn lines(hooks: &[Hook]) -> Vec<String> {
    hooks
        .iter()
        .map(|hook| format!("{}: {}", hook.id, hook.command.expand(&BTreeMap::new())))
        .collect()
}

fn in_phase(hooks: &[Hook], phase: HookPoint) -> Vec<Hook> {
    hooks.iter().filter(|hook| hook.id.phase == phase).cloned().collect()
}

#[test]
fn an_xfs_mount_of_a_compute_has_the_volume_and_the_profile_lines_of_its_allocation() {
    let units = on_compute(&compute_xfs()).unwrap();
    assert_eq!(
        (units.goal, units.mounts.len(), units.binds.len(), units.trees.len()),
        (Goal::Mounted, 1, 0, 0)
    );
    let mount = only_mount(&units);
    assert_eq!(
        (mount.target.to_string().as_str(), mount.kind, mount.owner),
        (PATH, FileSystemKind::Xfs, None)
    );
    let MountSource::Volume { volume, id } = &mount.source else { panic!("{:?}", mount.source) };
    assert_eq!(volume.namespaces.len(), 2);
    let owner = OWNER.parse().unwrap();
    assert_eq!(*id, FileSystemId::derive(owner, "rabbit-1", "default-fluxjob-7001-0-xfs-0", 0));
    let device = BTreeMap::from([("$DEVICE".to_owned(), "/dev/loop7".to_owned())]);
    assert!(mount.mount.as_ref().unwrap().expand(&device).ends_with(&format!("/dev/loop7 {PATH}")));
    assert_eq!(mount.unmount.as_ref().unwrap().expand(&device), PATH);
}

#[test]
fn with_shared_vg_the_volume_name_has_the_allocation_index_and_otherwise_the_group_name_has_it() {
    let mut object = compute_xfs();
    object.spec.mounts[0].device.device_reference.as_mut().unwrap().data = Some(2);
    let mut profile = profile();
    let mut name = |shared| {
        profile.spec.data.xfs_storage.block_device_commands.shared_vg = shared;
        let units =
            desired(&object, Ok(&profile), &no_references, &site(&object, Side::Compute)).unwrap();
        let MountSource::Volume { volume, .. } = &only_mount(&units).source else { panic!() };
        (volume.group.clone(), volume.logical.clone())
    };
    assert_eq!(name(true), (format!("{OWNER}_0"), "lv-2".to_owned()));
    assert_eq!(name(false), (format!("{OWNER}_0_2"), "lv".to_owned()));
}

/// Without the profile the agent does not know the names of volume group and volume: it reads the names from the NVMe
/// namespaces, and fills them into its own lines.
#[test]
fn without_a_profile_the_volume_names_are_read_from_the_nvme_namespaces() {
    let object = crate::testing::compute_gfs2();
    let site = Site { volumes: Volumes::Lvm, ..site(&object, Side::Compute) };
    let units = units(&object, Goal::Unmounted, Err("gone"), &no_references, &site).unwrap();
    let MountSource::Volume { volume, .. } = &only_mount(&units).source else { panic!() };
    assert!(volume.is_guessed() && !volume.namespaces.is_empty(), "{volume:?}");
    let lines = volume.layer.lines().unwrap();
    let found = [("$VG_NAME", "vg"), ("$LV_NAME", "x")].map(|(n, v)| (n.to_owned(), v.to_owned()));
    let deactivate = lines.deactivate.as_ref().unwrap().expand(&found.into());
    assert_eq!(deactivate, "--activate n vg/x");
}

#[test]
fn a_raw_device_gets_the_owner_that_the_mount_names() {
    let units = on_compute(&compute_raw()).unwrap();
    let mount = only_mount(&units);
    assert_eq!(
        (mount.kind, mount.owner),
        (FileSystemKind::Raw, Some(Owner { uid: 2107, gid: 2100 }))
    );
}

#[test]
fn a_lustre_mount_needs_no_labels_of_an_allocation() {
    let mut object = compute_lustre();
    object.metadata.labels.as_mut().unwrap().retain(|key, _| !key.contains("target_"));
    let units = on_compute(&object).unwrap();
    let mount = only_mount(&units);
    let MountSource::Lustre(source) = &mount.source else { panic!("{:?}", mount.source) };
    assert!(source.contains(":/"), "{source}");
    let line = mount.mount.as_ref().unwrap().expand(&BTreeMap::new());
    assert!(line.starts_with(&format!("-o flock {source} ")), "{line}");
    assert!(lines(&in_phase(&mount.hooks, HookPoint::PreMount))[0].contains("computePreMount"));
}

#[test]
fn a_bad_device_is_reported_with_its_field_and_remedy() {
    type Change = fn(&mut api::client_mount::ClientMountInfo);
    let cases: [(Change, &str); 9] = [
        (
            |m| m.kind = "ext4".into(),
            "spec.mounts[0].type: \"ext4\" is not known: use xfs, gfs2, lustre or none (raw)",
        ),
        (
            |m| m.device.kind = "zvol".into(),
            "spec.mounts[0].device.type: \"zvol\" does not fit a mount of type xfs: use lvm on a compute",
        ),
        (
            |m| m.device.kind = "reference".into(),
            "spec.mounts[0].device.deviceReference: only a rabbit can follow a reference",
        ),
        (
            |m| m.device.lvm = None,
            "spec.mounts[0].device.lvm: is missing or empty: list the namespaces",
        ),
        (
            |m| m.device.lvm.as_mut().unwrap().nvme_info.clear(),
            "spec.mounts[0].device.lvm.nvmeInfo: is missing or empty",
        ),
        (
            |m| m.device.lvm.as_mut().unwrap().nvme_info[1].namespace_id = "0".into(),
            "spec.mounts[0].device.lvm.nvmeInfo: \"0\" is not an NVMe namespace identifier",
        ),
        (
            |m| m.device.device_reference = None,
            "spec.mounts[0].device.deviceReference: is missing or empty: name the NnfNodeStorage",
        ),
        (
            |m| m.device.device_reference.as_mut().unwrap().data = Some(-1),
            "spec.mounts[0].device.deviceReference.data: -1 is not an allocation's index",
        ),
        (
            |m| m.device.device_reference.as_mut().unwrap().object_reference.name = None,
            "spec.mounts[0].device.deviceReference.objectReference.name: is missing",
        ),
    ];
    for (change, message) in cases {
        let error = error_of(|object| change(&mut object.spec.mounts[0]));
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn invalid_lustre_names_and_mgs_addresses_are_refused() {
    for (name, mgs, field) in [
        ("toolongname", "10.1.0.4@tcp", "fileSystemName"),
        ("a b", "10.1.0.4@tcp", "fileSystemName"),
        ("aaaaaaab", "", "mgsAddresses"),
        ("aaaaaaab", "-o exec", "mgsAddresses"),
        ("aaaaaaab", "10.1.0.4@tcp;reboot", "mgsAddresses"),
    ] {
        let mut object = compute_lustre();
        let lustre = object.spec.mounts[0].device.lustre.as_mut().unwrap();
        (lustre.file_system_name, lustre.mgs_addresses) = (name.into(), mgs.into());
        let error = on_compute(&object).unwrap().mounts[0].as_ref().unwrap_err().to_string();
        assert!(error.starts_with(&format!("spec.mounts[0].device.lustre.{field}: ")), "{error}");
    }
    let mut object = compute_lustre();
    object.spec.mounts[0].device.lustre = None;
    let error = on_compute(&object).unwrap().mounts[0].as_ref().unwrap_err().to_string();
    assert!(error.contains("device.lustre: is missing"), "{error}");
}

#[test]
fn the_error_for_a_missing_or_invalid_label_names_the_label() {
    let without =
        |key: &str| error_of(|object| drop(object.metadata.labels.as_mut().unwrap().remove(key)));
    assert!(
        without(label::TARGET_OWNER_UID)
            .starts_with("metadata.labels: nnf.cray.hpe.com/target_owner_uid is missing")
    );
    assert!(without(label::TARGET_DIRECTIVE_INDEX).contains("target_directive_index is missing"));
    let with = |key: &str, value: &str| {
        error_of(|object| {
            drop(object.metadata.labels.as_mut().unwrap().insert(key.into(), value.into()));
        })
    };
    assert!(
        with(label::TARGET_OWNER_UID, "x/y")
            .contains("target_owner_uid is \"x/y\": use the uid of the NnfStorage")
    );
    assert!(
        with(label::TARGET_DIRECTIVE_INDEX, "-1").contains("is \"-1\": use the directive's number")
    );
}

#[test]
fn objects_of_other_nodes_are_refused() {
    let object = compute_xfs();
    let mut elsewhere = object.clone();
    elsewhere.metadata.namespace = Some("compute-9".into());
    let site = site(&object, Side::Compute);
    let refused = |object: &ClientMount| {
        desired(object, Ok(&profile()), &no_references, &site).unwrap_err().to_string()
    };
    assert!(
        refused(&elsewhere)
            .contains("metadata.namespace: \"compute-9\" is not this node's namespace, compute-1")
    );
    let mut differs = object.clone();
    differs.spec.node = "compute-9".into();
    assert!(
        refused(&differs)
            .contains("spec.node is \"compute-9\" and differs from the namespace, \"compute-1\"")
    );
    assert!(
        refused(&deleted(&elsewhere)).contains("metadata.namespace"),
        "a deleted object of another namespace is refused too"
    );
}

#[test]
fn objects_without_mounts_uid_or_known_desired_state_are_refused() {
    let refused = |change: fn(&mut ClientMount)| {
        let mut object = compute_xfs();
        change(&mut object);
        on_compute(&object).unwrap_err().to_string()
    };
    assert!(refused(|o| o.spec.mounts.clear()).contains("spec.mounts: is empty"));
    assert!(
        refused(|o| o.spec.desired_state = "attached".into())
            .contains("spec.desiredState: \"attached\" is not known: use mounted or unmounted")
    );
    assert!(refused(|o| o.metadata.uid = None).contains("metadata.uid"));
}

#[test]
fn a_deleted_object_is_unmounted_whatever_its_desired_state_is() {
    assert_eq!(on_compute(&deleted(&compute_xfs())).unwrap().goal, Goal::Unmounted);
    let mut unmounted = compute_xfs();
    unmounted.spec.desired_state = MountState::Unmounted;
    assert_eq!(on_compute(&unmounted).unwrap().goal, Goal::Unmounted);
}

#[test]
fn ids_that_chown_cannot_set_are_refused() {
    for value in [-1, i64::from(u32::MAX), 1 << 40] {
        let error = error_of(|object| {
            object.spec.mounts[0].set_permissions = true;
            object.spec.mounts[0].user_id = Some(value);
        });
        assert!(
            error.starts_with(&format!("spec.mounts[0].userID: {value} is not a numeric id")),
            "{error}"
        );
    }
}

#[test]
fn a_mount_waits_for_block_storage_that_is_not_ready() {
    let object = rabbit_index();
    let absent = |_: &ClientMountDeviceReference| {
        Err(ReferenceError::NotReady("NnfNodeBlockStorage rabbit-1/x is not ready".into()))
    };
    let site = site(&object, Side::Rabbit);
    let units = desired(&object, Ok(&profile()), &absent, &site).unwrap();
    let failure = crate::error::Failure::from(units.mounts[0].as_ref().unwrap_err());
    assert_eq!((failure.severity, failure.retry), (api::Severity::Minor, controller::Retry::Soon));
    assert!(failure.user.contains(
        "could not find storage allocation: NnfNodeBlockStorage rabbit-1/x is not ready"
    ));
    let units = desired(&deleted(&object), Ok(&profile()), &absent, &site).unwrap();
    assert!(
        units.mounts.iter().all(Result::is_ok),
        "an unmount does not wait for the block storage"
    );
}

#[test]
fn no_text_in_an_object_causes_a_panic() {
    for text in ["", "$", "$$", "$JOBID$", "\u{0}", "é/../", "//", "$MOUNT_PATH"] {
        let mut object = compute_xfs();
        let labels = object.metadata.labels.as_mut().unwrap();
        labels.values_mut().for_each(|value| *value = text.into());
        for mount in &mut object.spec.mounts {
            mount.mount_path = text.into();
            mount.compute = Some(text.into());
            mount.kind = text.into();
        }
        for side in [Side::Compute, Side::Rabbit] {
            drop(desired(&object, Ok(&profile()), &references, &site(&object, side)));
        }
    }
}

use std::collections::BTreeMap;

use api::{
    NnfNodeStorage, nnf_node_block_storage::NnfNodeBlockStorageDeviceStatus,
    nnf_node_storage::CommandVariable,
};
use daemon::chain;
use storage::template::SiteCommand;

use agent::error::Failure;

use super::*;
use crate::samples;

fn temporary() -> TemporaryRoot {
    TemporaryRoot {
        path: "/mnt/temp".into(),
        roots: AllowedRoots::new(["/mnt/temp".into()]).unwrap(),
    }
}

fn file_systems(
    object: &NnfNodeStorage,
    profile: &NnfStorageProfile,
) -> Result<Vec<FileSystem>, NodeStorageError> {
    desired(object, profile, &samples::block_storage_ready(2), &temporary(), Volumes::Plain)
}

fn variable(name: &str, value: &str) -> CommandVariable {
    CommandVariable { name: name.into(), value: value.into(), ..CommandVariable::default() }
}

#[test]
fn each_file_system_has_its_own_volume_identity_and_temporary_mount() {
    let units = file_systems(&samples::node_storage(2, "xfs"), &samples::profile()).unwrap();
    assert_eq!(units.len(), 2);
    let [_, second] = &units[..] else { panic!("two") };
    assert_eq!(second.volume.group, format!("{}_0_1", samples::OWNER));
    assert_eq!((&*second.volume.logical, second.volume.namespaces[0].nsid), ("lv", 2));
    assert_eq!(second.temporary.to_string(), format!("/mnt/temp/{}-1", samples::NAME));
    let owner = samples::OWNER.parse().unwrap();
    assert_eq!(second.id, FileSystemId::derive(owner, "rabbit-1", samples::NAME, 1));
    assert_ne!(units[0].id, second.id);
}

#[test]
fn profile_lines_are_expanded_with_the_owner_and_the_temporary_mount() {
    let units = file_systems(&samples::node_storage(1, "xfs"), &samples::profile()).unwrap();
    let hook = &units[0].hooks[0];
    assert_eq!(
        hook.command.expand(&BTreeMap::new()),
        format!("chown 1050:1051 /mnt/temp/{}-0", samples::NAME)
    );
    assert_eq!((hook.id.phase, hook.id.index), (HookPoint::PostSetup, 0));
    let device = BTreeMap::from([("$DEVICE".to_owned(), "/dev/loop7".to_owned())]);
    assert_eq!(units[0].mkfs.as_ref().unwrap().expand(&device), "/dev/loop7");
}

#[test]
fn a_raw_device_has_no_mkfs_and_no_hook_that_needs_a_mount() {
    let mut profile = samples::profile();
    profile.spec.data.raw_storage.user_commands.post_setup = vec!["chown x $MOUNT_PATH".into()];
    profile.spec.data.raw_storage.user_commands.post_activate = vec!["true".into()];
    let units = file_systems(&samples::node_storage(1, "raw"), &profile).unwrap();
    assert_eq!(
        (&units[0].mkfs, units[0].hooks.len(), units[0].hooks[0].id.phase),
        (&None, 1, HookPoint::PostActivate)
    );
}

#[test]
fn an_indexed_variable_gives_each_file_system_its_own_value() {
    let mut object = samples::node_storage(2, "xfs");
    object.spec.command_variables.push(CommandVariable {
        name: "$COMPUTE_HOSTNAME".into(),
        indexed: true,
        indexed_values: vec!["compute-01".into(), "compute-02".into()],
        ..CommandVariable::default()
    });
    let mut profile = samples::profile();
    profile.spec.data.xfs_storage.user_commands.post_setup =
        vec!["touch $MOUNT_PATH/$COMPUTE_HOSTNAME".into()];
    let units = file_systems(&object, &profile).unwrap();
    let line = units[1].hooks[0].command.expand(&BTreeMap::new());
    assert!(line.ends_with("-1/compute-02"), "{line}");
}

#[test]
fn the_error_for_too_few_indexed_values_has_their_number() {
    let mut object = samples::node_storage(2, "xfs");
    let short = CommandVariable {
        name: "$COMPUTE_HOSTNAME".into(),
        indexed: true,
        indexed_values: vec!["compute-01".into()],
        ..CommandVariable::default()
    };
    object.spec.command_variables = vec![short];
    let error = file_systems(&object, &samples::profile()).unwrap_err();
    let expected = NodeStorageError::IndexedValues {
        place: 0,
        name: "$COMPUTE_HOSTNAME".into(),
        values: 1,
        count: 2,
    };
    assert_eq!(error, expected);
}

#[test]
fn a_value_from_an_object_is_not_run_as_a_command() {
    let mut object = samples::node_storage(1, "xfs");
    object.spec.command_variables.push(variable("$JOBID", "1; touch /tmp/owned"));
    let mut profile = samples::profile();
    profile.spec.data.xfs_storage.user_commands.post_setup = vec!["echo $JOBID".into()];
    let units = file_systems(&object, &profile).unwrap();
    assert_eq!(units[0].hooks[0].command.expand(&BTreeMap::new()), "echo '1; touch /tmp/owned'");
}

#[test]
fn a_shared_volume_group_with_one_file_system_is_named_without_the_index() {
    let mut object = samples::node_storage(1, "xfs");
    object.spec.shared_allocation = true;
    let mut profile = samples::profile();
    profile.spec.data.xfs_storage.block_device_commands.shared_vg = true;
    let units = file_systems(&object, &profile).unwrap();
    assert_eq!(units[0].volume.group, format!("{}_0", samples::OWNER));
    assert_eq!(units[0].volume.logical, "lv-0");
}

#[test]
fn unsupported_file_systems_are_rejected() {
    for kind in ["lvm", "zfs", "ext4"] {
        let error = file_systems(&samples::node_storage(1, kind), &samples::profile()).unwrap_err();
        assert_eq!(error, NodeStorageError::Type(kind.into()));
    }
    let mut shared = samples::node_storage(2, "raw");
    shared.spec.shared_allocation = true;
    let mut profile = samples::profile();
    profile.spec.data.raw_storage.block_device_commands.shared_vg = true;
    let error = file_systems(&shared, &profile).unwrap_err();
    assert_eq!(error, NodeStorageError::SharedCount(2));
    let (Failure { user, debug, .. }, remedy) = (Failure::from(&error), "--volumes lvm");
    assert!(debug.contains(remedy) && !user.contains(remedy), "only administrators start agents");
}

/// Uses the default GFS2 profile of the sites, with logical volumes: two file systems in one group.
#[test]
fn lvm_lines_are_expanded_with_the_values_of_the_node() {
    let mut profile = samples::profile();
    let gfs2 = &mut profile.spec.data.gfs2_storage;
    gfs2.block_device_commands.shared_vg = true;
    let commands = &mut gfs2.block_device_commands.rabbit_commands;
    commands.vg_create = "--shared --addtag $JOBID $VG_NAME $DEVICE_LIST".into();
    commands.vg_change.lock_start = "--lock-start $VG_NAME".into();
    commands.lv_create = "--stripes $DEVICE_NUM --size $LV_SIZE --name $LV_NAME $VG_NAME".into();
    commands.lv_change.activate = "--activate ys $VG_NAME/$LV_NAME".into();
    gfs2.file_system_commands.rabbit_commands.mkfs =
        "-j2 -p $PROTOCOL -t $CLUSTER_NAME:$LOCK_SPACE $DEVICE".into();
    let mut object = samples::node_storage(2, "gfs2");
    object.spec.shared_allocation = true;
    object.metadata.uid = Some("3e92c060-0000-4000-8000-000000000000".into());
    let block = samples::block_storage_ready(2);
    let units = desired(&object, &profile, &block, &temporary(), Volumes::Lvm).unwrap();
    let more = BTreeMap::from(
        [("$DEVICE_LIST", "/dev/a /dev/b"), ("$DEVICE_NUM", "2"), ("$DEVICE", "/dev/mapper/v")]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    let [_, second] = &units[..] else { panic!("two") };
    let lines = second.volume.layer.lines().unwrap();
    let group = format!("{}_0", samples::OWNER);
    let line = |command: &Option<SiteCommand>| command.as_ref().unwrap().expand(&more);
    assert_eq!(line(&lines.vg_create), format!("--shared --addtag 287341 {group} /dev/a /dev/b"));
    assert_eq!(line(&lines.lock_start), format!("--lock-start {group}"));
    assert!(line(&lines.lv_create).ends_with(&format!("--name lv-1 {group}")));
    assert_eq!(line(&lines.activate), format!("--activate ys {group}/lv-1"));
    assert_eq!(
        line(&second.mkfs),
        "-j2 -p lock_dlm -t rabbit-1:fs-01-3365393263 /dev/mapper/v",
        "the lock space's name is the one that the sites' computes know"
    );
    // Without LVM a single device cannot hold both file systems.
    let plain = desired(&object, &profile, &block, &temporary(), Volumes::Plain);
    assert_eq!(plain, Err(NodeStorageError::SharedCount(2)));
}

#[test]
fn different_sharing_in_object_and_profile_is_rejected() {
    let mut profile = samples::profile();
    profile.spec.data.xfs_storage.block_device_commands.shared_vg = true;
    let text = file_systems(&samples::node_storage(1, "xfs"), &profile).unwrap_err().to_string();
    assert!(text.contains("data.xfsStorage.blockDeviceCommands.sharedVg"), "{text}");
}

#[test]
fn the_error_for_an_invalid_node_storage_names_the_field() {
    assert_eq!(
        file_systems(&samples::node_storage(-1, "xfs"), &samples::profile()),
        Err(NodeStorageError::Count(-1))
    );
    let huge = samples::node_storage(i64::MAX, "xfs");
    assert_eq!(file_systems(&huge, &samples::profile()), Err(NodeStorageError::Count(i64::MAX)));

    let mut object = samples::node_storage(1, "xfs");
    object.metadata.labels.as_mut().unwrap().remove(label::OWNER_UID);
    assert_eq!(
        file_systems(&object, &samples::profile()),
        Err(NodeStorageError::Label(label::OWNER_UID))
    );

    let mut object = samples::node_storage(1, "xfs");
    object.spec.command_variables = vec![variable("JOBID", "1")];
    let expected = NodeStorageError::VariableName { place: 0, name: "JOBID".into() };
    assert_eq!(file_systems(&object, &samples::profile()), Err(expected));

    let mut profile = samples::profile();
    profile.spec.data.xfs_storage.file_system_commands.rabbit_commands.mkfs =
        "-L 'x $DEVICE".into();
    let text = chain(&file_systems(&samples::node_storage(1, "xfs"), &profile).unwrap_err());
    assert!(
        text.contains("default/job-7-0")
            && text.contains("rabbitCommands.mkfs")
            && text.contains("quotes"),
        "{text}"
    );

    let mut profile = samples::profile();
    profile.spec.data.xfs_storage.variable_override.insert("$TEMP_DIR".into(), "/etc".into());
    let error = file_systems(&samples::node_storage(1, "xfs"), &profile);
    assert!(matches!(error, Err(NodeStorageError::Temporary(_))), "{error:?}");
}

#[test]
fn the_block_storage_must_have_a_device_for_each_file_system() {
    let object = samples::node_storage(3, "xfs");
    let mut block = samples::block_storage_ready(2);
    assert!(matches!(
        check_block(&object, &block),
        Err(NodeStorageError::Allocations { count: 3, allocations: 2, .. })
    ));
    let object = samples::node_storage(2, "xfs");
    assert_eq!(check_block(&object, &block), Ok(()));
    block.status.as_mut().unwrap().allocations[1].accesses.clear();
    let error = check_block(&object, &block).unwrap_err().to_string();
    assert!(
        error.contains("allocation 1: put rabbit-1 first in spec.allocations[1].access"),
        "{error}"
    );
}

#[test]
fn missing_devices_are_left_to_the_check_of_the_volume() {
    let (object, mut block) = (samples::node_storage(1, "xfs"), samples::block_storage_ready(1));
    let allocation = &mut block.status.as_mut().unwrap().allocations[0];
    let away = NnfNodeBlockStorageDeviceStatus {
        namespace_id: "9".into(),
        ..allocation.devices[0].clone()
    };
    allocation.devices.push(away);
    assert_eq!(check_block(&object, &block), Ok(()));
    let allocation = &mut block.status.as_mut().unwrap().allocations[0];
    allocation.accesses.get_mut("rabbit-1").unwrap().device_paths.clear();
    assert_eq!(check_block(&object, &block), Ok(()));
}

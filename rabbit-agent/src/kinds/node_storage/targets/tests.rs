use std::collections::BTreeMap;

use api::nnf_node_storage::NnfStorageHealth;
use daemon::chain;
use serde_json::{Value, json};
use storage::{ConvergeError, Rejection, observed::Percent, template::SiteCommand};

use super::*;
use crate::{
    kinds::node_storage::{
        report::{UnitState, status},
        unit::Unit,
    },
    samples,
};

const MGS: &str = "172.31.241.10@kfi";

fn roots(path: &str) -> AllowedRoots {
    AllowedRoots::new([path.into()]).unwrap()
}

/// Returns the Lustre part of the sites' default profile.
fn profile() -> NnfStorageProfile {
    let target = |mkfs: &str| {
        json!({"colocateComputes": false, "commandlines": {
            "zpoolCreate": "-O canmount=off -o cachefile=none $POOL_NAME $DEVICE_LIST",
            "zpoolDestroy": "$POOL_NAME",
            "zpoolReplace": "$POOL_NAME $OLD_DEVICE $NEW_DEVICE",
            "mkfs": format!("{mkfs} --mkfsoptions=\"nnf:jobid=$JOBID\" $ZVOL_NAME"),
            "mountTarget": "$ZVOL_NAME $MOUNT_PATH", "unmountTarget": "$MOUNT_PATH",
            "postActivate": ["mountpoint $MOUNT_PATH"]}})
    };
    let named = "--backfstype=$BACKFS --fsname=$FS_NAME --mgsnode=$MGS_NID --index=$INDEX";
    let lustre = json!({
        "combinedMgtMdt": true,
        "mgtOptions": target("--mgs --backfstype=$BACKFS"),
        "mdtOptions": target(&format!("--mdt {named}")),
        "mgtMdtOptions":
            target("--mgs --mdt --backfstype=$BACKFS --fsname=$FS_NAME --index=$INDEX"),
        "ostOptions": target(&format!("--ost {named}")),
        "clientOptions": {"commandlines": {
            "mountRabbit": "$MGS_NID:/$FS_NAME $MOUNT_PATH",
            "rabbitPostSetup": ["lfs setstripe -E 64K -L mdt $MOUNT_PATH"],
            "rabbitPreTeardown": ["echo $NUM_OSTS"]}}
    });
    let mut profile = samples::profile();
    profile.spec.data.lustre_storage = serde_json::from_value(lustre).unwrap();
    profile
}

fn object(kind: &str, count: i64, change: Value) -> NnfNodeStorage {
    let mut object = samples::node_storage(count, "lustre");
    let mut spec = json!({
        "fileSystemName": "aaaaaaab", "targetType": kind, "mgsAddress": MGS, "backFs": "zfs",
        "lustreComponents": {"mgtmdts": ["rabbit-1"], "osts": ["rabbit-1", "rabbit-2"], "nnfNodes": ["rabbit-1", "rabbit-2"]}
    });
    let Value::Object(change) = change else { panic!("fields of the spec") };
    change.into_iter().for_each(|(name, value)| spec[name] = value);
    object.spec.lustre_storage = serde_json::from_value(spec).unwrap();
    object
}

fn lustre_targets(
    object: &NnfNodeStorage,
    profile: &NnfStorageProfile,
) -> Result<Vec<LustreTarget>, NodeStorageError> {
    let temporary = TemporaryRoot { path: "/mnt/temp".into(), roots: roots("/mnt/temp") };
    let mount_roots = MountRoots { roots: &roots("/mnt/nnf"), temporary: &temporary };
    targets(object, profile, &samples::block_storage_ready(2), mount_roots)
}

fn only(kind: &str) -> LustreTarget {
    let mut made = lustre_targets(&object(kind, 1, json!({})), &profile()).unwrap();
    made.remove(0)
}

fn line(command: &Option<SiteCommand>) -> String {
    let seen = [("$DEVICE_LIST", "/dev/nvme1n5 /dev/nvme2n5"), ("$DEVICE_NUM", "2")];
    let seen = seen.map(|(name, value)| (name.to_owned(), value.to_owned()));
    command.as_ref().unwrap().expand(&BTreeMap::from(seen))
}

#[test]
fn names_and_command_lines_equal_those_of_nnf_node_manager() {
    let target = only("mgtmdt");
    let pool = format!("pool-{}-mgtmdt-0", samples::OWNER);
    let path = format!("/mnt/nnf/{}-mgtmdt-0", samples::OWNER);
    assert_eq!(target.dataset.to_string(), format!("{pool}/mgtmdt"));
    assert_eq!(target.target.to_string(), path);
    let lines = &target.lines;
    assert_eq!(
        line(&lines.create),
        format!("-O canmount=off -o cachefile=none {pool} /dev/nvme1n5 /dev/nvme2n5")
    );
    assert_eq!(
        line(&lines.mkfs),
        format!(
            "--mgs --mdt --backfstype=zfs --fsname=aaaaaaab --index=0 --mkfsoptions=\"nnf:jobid=287341\" {pool}/mgtmdt"
        )
    );
    assert_eq!(line(&lines.mount), format!("{pool}/mgtmdt {path}"));
    assert_eq!((line(&lines.unmount), line(&lines.destroy)), (path.clone(), pool));
    let hook = &target.hooks[0];
    assert_eq!(hook.command.expand(&BTreeMap::new()), format!("mountpoint {path}"));
    assert_eq!(target.client, None);
    assert!(line(&only("mgt").lines.mkfs).starts_with("--mgs --backfstype=zfs --mkfsoptions"));
    assert!(line(&only("mdt").lines.mkfs).contains(&format!("--mgsnode={MGS} --index=0")));
}

#[test]
fn only_the_first_object_target_has_a_client_mount_for_hooks() {
    let both = lustre_targets(&object("ost", 2, json!({})), &profile()).unwrap();
    let [first, second] = &both[..] else { panic!("two") };
    let client = first.client.as_ref().unwrap();
    let temporary = format!("/mnt/temp/{}-0", samples::NAME);
    assert_eq!(client.source, format!("{MGS}:/aaaaaaab"));
    assert_eq!(line(&client.mount), format!("{MGS}:/aaaaaaab {temporary}"));
    let hook = |phase| {
        let hook = first.hooks.iter().find(|hook| hook.id.phase == phase).unwrap();
        hook.command.expand(&BTreeMap::new())
    };
    let setup = hook(HookPoint::PostSetup);
    assert_eq!(setup, format!("lfs setstripe -E 64K -L mdt {temporary}"));
    assert_eq!(hook(HookPoint::PreTeardown), "echo 2");
    assert_eq!(second.client, None);
    assert!(line(&second.lines.mkfs).contains("--index=1 "), "{}", line(&second.lines.mkfs));
    assert_eq!(second.namespaces[0].nsid, 2);

    let later = lustre_targets(&object("ost", 1, json!({"startIndex": 3})), &profile()).unwrap();
    assert_eq!(later[0].client, None);
    assert!(later[0].dataset.pool().ends_with("-ost-3"));
}

#[test]
fn a_target_is_named_like_its_lustre_service() {
    let mut profile = profile();
    let lustre = &mut profile.spec.data.lustre_storage;
    let hook = || vec!["echo $TARGET_NAME".to_owned()];
    lustre.mgt_options.target.command_lines.post_activate = hook();
    lustre.mdt_options.target.command_lines.post_activate = hook();
    lustre.mgt_mdt_options.target.command_lines.post_activate = hook();
    lustre.ost_options.target.command_lines.post_activate = hook();
    for (kind, start, wanted) in [
        ("ost", 10, "aaaaaaab-OST000a"),
        ("ost", 4095, "aaaaaaab-OST0fff"),
        ("mdt", 16, "aaaaaaab-MDT0010"),
        ("mgtmdt", 0, "aaaaaaab-MDT0000"),
        ("mgt", 0, "MGS"),
    ] {
        let made =
            lustre_targets(&object(kind, 1, json!({"startIndex": start})), &profile).unwrap();
        let hook = made[0].hooks.iter().find(|hook| hook.id.phase == HookPoint::PostActivate);
        let line = hook.unwrap().command.expand(&BTreeMap::new());
        assert_eq!(line, format!("echo {wanted}"), "{kind} {start}");
    }
}

#[test]
fn the_overrides_of_a_profile_set_a_targets_pool_dataset_and_mount_point() {
    let mut profile = profile();
    let overrides = &mut profile.spec.data.lustre_storage.ost_options.target.variable_override;
    for (name, value) in [
        ("$ZPOOL_NAME", "job-$JOBID"),
        ("$ZPOOL_DATA_SET", "data"),
        ("$TARGET_PATH", "/mnt/nnf/ost-$INDEX"),
        // `$MOUNT_PATH` is the mount point on clients.
        ("$MOUNT_PATH", "/lustre/$JOBID"),
    ] {
        overrides.insert(name.to_owned(), value.to_owned());
    }
    let target = lustre_targets(&object("ost", 1, json!({})), &profile).unwrap().remove(0);
    assert_eq!(target.dataset.to_string(), "job-287341/data");
    assert_eq!(line(&target.lines.mount), "job-287341/data /mnt/nnf/ost-0");
    assert_eq!(line(&target.lines.destroy), "job-287341");
    assert!(line(&target.client.unwrap().mount).ends_with("/mnt/temp/default-job-7-0-xfs-0-0"));
}

#[test]
fn the_error_for_an_invalid_target_names_field_and_remedy() {
    let error_of = |object: &NnfNodeStorage, profile: &NnfStorageProfile| {
        let error = lustre_targets(object, profile).unwrap_err();
        chain(&error)
    };
    for (kind, change, expected) in [
        ("ost", json!({"mgsAddress": ""}), "spec.lustreStorage.mgsAddress is \"\": use the LNet"),
        ("ost", json!({"fileSystemName": ""}), "fileSystemName is \"\": use 1 to 8 letters"),
        ("mdt", json!({"fileSystemName": "a b"}), "fileSystemName is \"a b\""),
        ("ost", json!({"backFs": "ldiskfs"}), "backFs is \"ldiskfs\": use zfs"),
        ("ost", json!({"startIndex": 65535}), "startIndex is \"65535\": use 0 to 65534"),
        ("router", json!({}), "targetType is \"router\": use mgt, mdt, mgtmdt or ost"),
    ] {
        let text = error_of(&object(kind, 1, change), &profile());
        assert!(text.contains(expected), "{text}");
    }
    assert!(
        lustre_targets(
            &object("mgt", 1, json!({"mgsAddress": "", "fileSystemName": ""})),
            &profile()
        )
        .is_ok()
    );
    let mut shared = object("ost", 2, json!({}));
    shared.spec.shared_allocation = true;
    assert!(error_of(&shared, &profile()).contains("spec.sharedAllocation"));

    let error_with_override = |name: &str, value: &str| {
        let mut profile = profile();
        let target = &mut profile.spec.data.lustre_storage.ost_options.target;
        target.variable_override.insert(name.to_owned(), value.to_owned());
        error_of(&object("ost", 1, json!({})), &profile)
    };
    assert!(error_with_override("$ZPOOL_NAME", "a b").contains("is not a pool and a dataset"));
    assert!(error_with_override("$ZVOL_NAME", "tank/ost").contains("use a dataset in $POOL_NAME"));
    assert!(
        error_with_override("$TARGET_PATH", "/srv/ost").contains("not beneath an allowed root")
    );
    assert!(error_with_override("$TARGET_PATH", "/mnt/nnf/../x").contains("'..'"));
}

/// A target serves while its pool resilvers. If an earlier pass failed and reported the target as not ready
/// (`was_ready` is false), this pass reports it as ready again.
#[test]
fn a_target_whose_pool_resilvers_is_ready() {
    let unit = Unit::Target(Box::new(only("ost")));
    let (pool, percent) = ("pool-a-ost-0".to_owned(), Percent::default());
    let resilvered = Rejection::Resilvering { pool, percent };
    let outcome = Some(Err(ConvergeError::Rejected(resilvered)));
    for was_ready in [true, false] {
        let expected = status(&[UnitState::of_unit(&unit, was_ready, &outcome)], None);
        assert_eq!((expected.ready, expected.health), (true, Some(NnfStorageHealth::Degraded)));
    }
}

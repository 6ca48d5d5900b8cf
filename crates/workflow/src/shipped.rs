//! The directive rules and the profiles for storage and copies that Warren ships. With them, a system without rules
//! and profiles of its own can run jobs.

use api::{
    DWDirectiveRule, DWDirectiveRuleBody, NnfDataMovementProfile, NnfDataMovementProfileBody,
    NnfDataMovementProfileData, NnfStorageProfile, NnfStorageProfileBody,
    dw_directive_rule::{DWDirectiveRuleDef, DWDirectiveRuleSpec},
    names::PROFILE_TEMPLATE_NAMESPACE,
};
use controller::{Object, ensure_namespace};
use directive::{Rule, RuleDef, SHIPPED_NAME, shipped};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde_json::json;

/// Namespace of the rules.
const RULES_NAMESPACE: &str = "dws-system";

/// Creates the shipped rules if the API has no rules, and of each kind of profile the shipped profile if the API has
/// no profile of that kind. Existing objects stay as they are.
///
/// # Errors
/// When the API does not answer, or refuses.
pub async fn install(client: &Client) -> kube::Result<()> {
    create_if_none(client, RULES_NAMESPACE, &rules()).await?;
    create_if_none(client, PROFILE_TEMPLATE_NAMESPACE, &profile()).await?;
    create_if_none(client, PROFILE_TEMPLATE_NAMESPACE, &movement_profile()).await
}

async fn create_if_none<K: Object>(
    client: &Client,
    namespace: &str,
    object: &K,
) -> kube::Result<()> {
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    if !api.list(&ListParams::default().limit(1)).await?.items.is_empty() {
        return Ok(());
    }
    ensure_namespace(client, namespace).await?;
    match api.create(&PostParams::default(), object).await {
        // Another coordinator may have been faster.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        created => created.map(drop),
    }
}

/// Returns the rules that the crate `directive` ships, as a DWDirectiveRule.
#[must_use]
pub fn rules() -> DWDirectiveRule {
    let mut rules = DWDirectiveRule::new(
        SHIPPED_NAME,
        DWDirectiveRuleBody { spec: shipped().iter().map(rule).collect() },
    );
    rules.metadata.namespace = Some(RULES_NAMESPACE.to_owned());
    rules
}

fn rule(rule: &Rule) -> DWDirectiveRuleSpec {
    DWDirectiveRuleSpec {
        command: rule.command.clone(),
        driver_label: rule.driver_label.clone(),
        watch_states: rule.watch_states.clone(),
        rule_defs: rule.rule_defs.iter().map(definition).collect(),
    }
}

fn definition(argument: &RuleDef) -> DWDirectiveRuleDef {
    DWDirectiveRuleDef {
        key: argument.key.clone(),
        kind: argument.kind.clone(),
        pattern: argument.pattern.clone(),
        patterns: argument.patterns.clone(),
        min: argument.min,
        max: argument.max,
        is_required: argument.is_required,
        is_value_required: argument.is_value_required,
        unique_within: argument.unique_within.clone(),
    }
}

/// Returns the profile for copies whose directive names no profile.
#[must_use]
pub fn movement_profile() -> NnfDataMovementProfile {
    let data =
        NnfDataMovementProfileData { default: true, ..NnfDataMovementProfileData::default() };
    let mut profile =
        NnfDataMovementProfile::new("default", NnfDataMovementProfileBody { data: data.into() });
    profile.metadata.namespace = Some(PROFILE_TEMPLATE_NAMESPACE.to_owned());
    profile
}

/// Bytes that each volume has in addition to its file system, for LVM's metadata.
const PADDING: &str = "32MiB";

/// Returns a profile with one allocation for each compute, so that the profile also works without a volume manager.
#[must_use]
pub fn profile() -> NnfStorageProfile {
    let mkfs = |mkfs: &str| json!({"mkfs": mkfs, "mount": "$DEVICE $MOUNT_PATH", "unmount": "$MOUNT_PATH"});
    let computes = json!({"mount": "$DEVICE $MOUNT_PATH", "unmount": "$MOUNT_PATH"});
    let owned = json!({"postSetup": ["chown $USERID:$GROUPID $MOUNT_PATH"]});
    let bind = json!({"mount": "-o bind $DEVICE $MOUNT_PATH", "unmount": "$MOUNT_PATH"});
    let data = json!({
        "default": true,
        "xfsStorage": {
            "allocationPadding": PADDING,
            "blockDeviceCommands": volumes(false),
            "fileSystemCommands": {"rabbitCommands": mkfs("$DEVICE"), "computeCommands": computes},
            "userCommands": owned,
        },
        "gfs2Storage": {
            "allocationPadding": PADDING,
            "blockDeviceCommands": volumes(true),
            "fileSystemCommands": {
                "rabbitCommands": mkfs("-j2 -p $PROTOCOL -t $CLUSTER_NAME:$LOCK_SPACE $DEVICE"),
                "computeCommands": computes,
            },
            "userCommands": owned,
        },
        "lustreStorage": lustre(),
        "rawStorage": {
            "allocationPadding": PADDING,
            "blockDeviceCommands": volumes(false),
            "fileSystemCommands": {"rabbitCommands": bind, "computeCommands": bind},
        },
    });
    let data = serde_json::from_value::<api::NnfStorageProfileData>(data);
    let data = data.expect("these are fields of a profile");
    let mut profile =
        NnfStorageProfile::new("default", NnfStorageProfileBody { data: data.into() });
    profile.metadata.namespace = Some(PROFILE_TEMPLATE_NAMESPACE.to_owned());
    profile
}

/// Returns the command lines for LVM; volumes without LVM ignore these command lines. A shared volume group has locks
/// and is used by all computes of a rabbit.
fn volumes(shared: bool) -> serde_json::Value {
    let (activate, flag) = if shared { ("ys", "--shared ") } else { ("y", "") };
    let activation = json!({
        "activate": format!("--activate {activate} $VG_NAME/$LV_NAME"),
        "deactivate": "--activate n $VG_NAME/$LV_NAME",
    });
    let locks = if shared {
        json!({"lockStart": "--lock-start $VG_NAME", "lockStop": "--lock-stop $VG_NAME"})
    } else {
        json!({})
    };
    let size = if shared { "--size $LV_SIZE" } else { "--extents $PERCENT_VG" };
    json!({
        "sharedVg": shared,
        "rabbitCommands": {
            "pvCreate": "$DEVICE", "pvRemove": "$DEVICE",
            "vgCreate": format!("{flag}--addtag $JOBID $VG_NAME $DEVICE_LIST"), "vgRemove": "$VG_NAME",
            "vgChange": locks,
            "lvCreate": format!("--zero n --activate n {size} --stripes $DEVICE_NUM --stripesize=32KiB --name $LV_NAME $VG_NAME"),
            "lvRemove": "$VG_NAME/$LV_NAME", "lvChange": activation,
        },
        "computeCommands": {"vgChange": locks, "lvChange": activation},
    })
}

/// Makes a metadata server trust the list of a user's groups that its clients send. A rabbit knows no users, so
/// l_getidentity(8) would refuse all users.
const NO_UPCALL: &str = "--param=mdt.identity_upcall=NONE";

/// Returns the Lustre options: one target for management and metadata, and object targets on the rabbits of the job's
/// computes, all on ZFS.
fn lustre() -> serde_json::Value {
    const SERVES: &str = "mountpoint $MOUNT_PATH";
    let target = |mkfs: &str, hooks: &[&str]| {
        json!({"colocateComputes": false, "commandlines": {
            "zpoolCreate": "-O canmount=off -o cachefile=none $POOL_NAME $DEVICE_LIST",
            "zpoolDestroy": "$POOL_NAME",
            "mkfs": format!("{mkfs} --backfstype=$BACKFS --mkfsoptions=\"nnf:jobid=$JOBID\" $ZVOL_NAME"),
            "mountTarget": "$ZVOL_NAME $MOUNT_PATH", "unmountTarget": "$MOUNT_PATH",
            "postActivate": hooks,
        }})
    };
    let serves =
        |mkfs: &str| target(&format!("{mkfs} --fsname=$FS_NAME --index=$INDEX"), &[SERVES]);
    let mut mdt = serves(&format!("--mdt --mgsnode=$MGS_NID {NO_UPCALL}"));
    let mut combined = serves(&format!("--mgs --mdt {NO_UPCALL}"));
    let mut ost = serves("--ost --mgsnode=$MGS_NID");
    (mdt["count"], combined["count"]) = (json!(1), json!(1));
    ost["colocateComputes"] = json!(true);
    json!({
        "combinedMgtMdt": true,
        "mgtOptions": target("--mgs", &[]), "mdtOptions": mdt, "mgtMdtOptions": combined, "ostOptions": ost,
        "clientOptions": {"commandlines": {
            "mountRabbit": "$MGS_NID:/$FS_NAME $MOUNT_PATH", "unmountRabbit": "$MOUNT_PATH",
            "mountCompute": "$MGS_NID:/$FS_NAME $MOUNT_PATH", "unmountCompute": "$MOUNT_PATH",
        }},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{ruleset, to_storage_profile};

    /// The rabbit that serves metadata has no account of the job's user, so an upcall would fail.
    #[test]
    fn the_shipped_profile_switches_off_identity_upcalls_of_metadata_servers() {
        let profile = profile();
        let lustre = &profile.data().lustre_storage;
        let mkfs = [
            &lustre.mdt_options.target.command_lines.mkfs,
            &lustre.mgt_mdt_options.target.command_lines.mkfs,
        ];
        for line in mkfs {
            assert!(line.contains(" --param=mdt.identity_upcall=NONE "), "{line}");
        }
        let ost = &lustre.ost_options.target.command_lines.mkfs;
        assert!(!ost.contains("identity_upcall"), "{ost}");
    }

    #[test]
    fn shipped_rules_and_profile_are_enough_for_a_job() {
        let line = "#DW jobdw type=xfs capacity=1GiB name=scratch".to_owned();
        let checked = ruleset([&rules()]).check(std::slice::from_ref(&line)).unwrap();
        let directive::Command::Jobdw(jobdw) = directive::Command::try_from(&checked[0]).unwrap()
        else {
            panic!("{checked:?}")
        };
        let sets = directive::breakdown::of_jobdw(&jobdw, &to_storage_profile(&profile())).unwrap();
        assert_eq!(sets[0].minimum_capacity, (1 << 30) + (32 << 20));
        assert!(profile().data().default && !profile().data().pinned);
    }
}

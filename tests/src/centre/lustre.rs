//! The targets of a Lustre file system on a rabbit.

use serde_json::{Value, json};

use super::{Chassis, Job, NNF};
use crate::lustre_tools::NID;

/// Name of the Lustre file system (fsname).
pub const FS_NAME: &str = "aaaaaaab";

impl Job {
    /// Returns the Lustre part of the sites' default profile.
    #[must_use]
    pub fn lustre_profile(&self) -> Value {
        let data = json!({"pinned": true, "lustreStorage": {
            "combinedMgtMdt": true,
            "mgtOptions": target("--mgs --backfstype=$BACKFS"),
            "mdtOptions": target("--mdt --backfstype=$BACKFS --fsname=$FS_NAME --mgsnode=$MGS_NID --index=$INDEX"),
            "mgtMdtOptions": target("--mgs --mdt --backfstype=$BACKFS --fsname=$FS_NAME --index=$INDEX"),
            "ostOptions": target("--ost --backfstype=$BACKFS --fsname=$FS_NAME --mgsnode=$MGS_NID --index=$INDEX"),
            "clientOptions": {"commandlines": {
                "mountRabbit": "$MGS_NID:/$FS_NAME $MOUNT_PATH", "unmountRabbit": "$MOUNT_PATH",
                "rabbitPostSetup": ["lfs setstripe -E 64K -L mdt $MOUNT_PATH"],
                "rabbitPreTeardown": ["mountpoint $MOUNT_PATH"]}},
        }});
        json!({
            "apiVersion": NNF, "kind": "NnfStorageProfile", "data": data,
            "metadata": {"name": self.directive(), "namespace": "default"},
        })
    }

    /// Returns the name that the NnfNodeStorage and the NnfNodeBlockStorage of this kind of target share.
    #[must_use]
    pub fn lustre_storage(&self, kind: &str) -> String {
        format!("default-{}-{kind}-0", self.directive())
    }

    /// Returns the name of a target, with which the name of the target's pool and the path of its mount point end.
    #[must_use]
    pub fn lustre_target(&self, kind: &str, index: u32) -> String {
        format!("{}-{kind}-{index}", self.storage_uid)
    }

    /// Returns the NnfNodeBlockStorage and the NnfNodeStorage of `count` targets of one kind.
    #[must_use]
    pub fn lustre_targets(&self, chassis: &Chassis, kind: &str, count: u32) -> [Value; 2] {
        let mut block = self.block_storage(chassis, false);
        let mut targets = self.file_systems(chassis);
        let name = self.lustre_storage(kind);
        block["metadata"]["name"] = json!(name);
        targets["metadata"]["name"] = json!(name);
        let allocation = json!({"capacity": self.capacity, "access": [chassis.rabbit]});
        block["spec"]["allocations"] = (0..count).map(|_| allocation.clone()).collect();
        let spec = &mut targets["spec"];
        spec["count"] = json!(count);
        spec["fileSystemType"] = json!("lustre");
        spec["blockReference"]["name"] = json!(name);
        spec["lustreStorage"] = json!({
            "fileSystemName": FS_NAME, "targetType": kind, "mgsAddress": NID, "backFs": "zfs",
            "lustreComponents": {"mgtmdts": [chassis.rabbit], "osts": [chassis.rabbit, chassis.rabbit]},
        });
        [block, targets]
    }
}

fn target(mkfs: &str) -> Value {
    json!({"colocateComputes": false, "commandlines": {
        "zpoolCreate": "-O canmount=off -o cachefile=none $POOL_NAME $DEVICE_LIST",
        "zpoolDestroy": "$POOL_NAME",
        "mkfs": format!("{mkfs} --mkfsoptions=\"nnf:jobid=$JOBID\" $ZVOL_NAME"),
        "mountTarget": "$ZVOL_NAME $MOUNT_PATH", "unmountTarget": "$MOUNT_PATH",
        "postActivate": ["mountpoint $MOUNT_PATH"]}})
}

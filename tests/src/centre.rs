//! Plays the central controllers of a site (those of DWS and NNF): creates the objects of one job, in the order and
//! shape in which the controllers create them.
//!
//! The objects are modelled on objects of a running system: they have names, labels and owners of the same form. Their
//! sizes fit a laptop.

mod lustre;

pub use lustre::FS_NAME;
use serde_json::{Value, json};

const DWS: &str = "dataworkflowservices.github.io/v1alpha7";
const NNF: &str = "nnf.cray.hpe.com/v1alpha11";

/// Bytes of an allocation: the smallest XFS that mkfs.xfs 6 makes is 300 MiB.
pub const ALLOCATION_BYTES: u64 = 320 << 20;

/// A chassis: one rabbit, and its computes with their indexes in the SystemConfiguration.
#[derive(Debug, Clone)]
pub struct Chassis {
    /// Name of the rabbit's node.
    pub rabbit: String,
    /// Names and indexes of the computes, in the order in which a job uses them.
    pub computes: Vec<(String, u8)>,
}

impl Chassis {
    /// Returns `rabbit-1` with `computes` computes, from `compute-1` on. The third compute is in slot 6: indexes have
    /// gaps on real systems.
    #[must_use]
    pub fn new(computes: u8) -> Self {
        let computes =
            (0..computes).map(|place| (format!("compute-{}", place + 1), slot(place))).collect();
        Self { rabbit: "rabbit-1".to_owned(), computes }
    }

    /// Returns the SystemConfiguration of a system that consists of this chassis.
    #[must_use]
    pub fn system_configuration(&self) -> Value {
        system_configuration(std::slice::from_ref(self))
    }

    fn storage_node(&self) -> Value {
        let access: Vec<_> = self
            .computes
            .iter()
            .map(|(name, index)| json!({"name": name, "index": index}))
            .collect();
        json!({"type": "Rabbit", "name": self.rabbit, "computesAccess": access})
    }
}

/// Returns the SystemConfiguration of a system with several chassis.
#[must_use]
pub fn system_configuration(chassis: &[Chassis]) -> Value {
    let nodes: Vec<_> = chassis.iter().map(Chassis::storage_node).collect();
    json!({
        "apiVersion": DWS, "kind": "SystemConfiguration",
        "metadata": {"name": "default", "namespace": "default"},
        "spec": {"ports": ["5000-5999"], "portsCooldownInSeconds": 0, "storageNodes": nodes},
    })
}

fn slot(place: u8) -> u8 {
    if place < 2 { place } else { place + 4 }
}

/// A job with a single `#DW jobdw` directive.
#[derive(Debug, Clone)]
pub struct Job {
    /// Name of the Workflow, `fluxjob-<n>`.
    pub name: String,
    /// `metadata.uid` of its Workflow: part of every mount path.
    pub workflow_uid: String,
    /// `metadata.uid` of its NnfStorage: part of every volume name.
    pub storage_uid: String,
    /// File system: `xfs`, `raw`, `gfs2` or `lustre`.
    pub file_system: &'static str,
    /// User who owns the storage (uid).
    pub user: u32,
    /// Bytes of each allocation.
    pub capacity: u64,
    /// Directory beneath which the job's file systems are mounted.
    pub mount_root: String,
}

impl Job {
    /// Creates a job of user 1050; jobs with different numbers have different uids.
    #[must_use]
    pub fn new(number: u32, file_system: &'static str, mount_root: &str) -> Self {
        Self {
            name: format!("fluxjob-{number}"),
            workflow_uid: uuid::Uuid::new_v4().to_string(),
            storage_uid: uuid::Uuid::new_v4().to_string(),
            file_system,
            user: 1050,
            capacity: ALLOCATION_BYTES,
            mount_root: mount_root.to_owned(),
        }
    }

    /// Returns the name of the pinned profile, of the NnfStorage and of the directive's breakdown.
    #[must_use]
    pub fn directive(&self) -> String {
        format!("{}-{}-0", self.name, self.file_system)
    }

    /// Returns the name that the NnfNodeStorage and its NnfNodeBlockStorage share.
    #[must_use]
    pub fn node_storage(&self) -> String {
        format!("default-{}-{}-0", self.directive(), self.file_system)
    }

    /// Returns whether all computes share one volume group, as they do with GFS2.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.file_system == "gfs2"
    }

    /// Returns the index of the allocation that the compute at index `place` of the chassis uses.
    #[must_use]
    pub fn allocation(&self, place: usize) -> usize {
        if self.is_shared() { 0 } else { place }
    }

    /// Returns the path at which each compute mounts its allocation, and beneath which the
    /// rabbit mounts all allocations.
    #[must_use]
    pub fn mount_path(&self) -> String {
        format!("{}/{}-0", self.mount_root, self.workflow_uid)
    }

    /// Returns the name of the ClientMount in each compute's namespace.
    #[must_use]
    pub fn computes_mount(&self) -> String {
        format!("default-{}-computes", self.directive())
    }

    /// Returns the name of the ClientMount in the rabbit's namespace.
    #[must_use]
    pub fn servers_mount(&self) -> String {
        format!("default-{}-servers", self.directive())
    }

    fn labels(&self, owner_kind: &str, owner_name: &str, owner_uid: &str) -> Value {
        json!({
            "dataworkflowservices.github.io/owner.kind": owner_kind,
            "dataworkflowservices.github.io/owner.name": owner_name,
            "dataworkflowservices.github.io/owner.namespace": "default",
            "dataworkflowservices.github.io/owner.uid": owner_uid,
            "dataworkflowservices.github.io/workflow.name": self.name,
            "dataworkflowservices.github.io/workflow.namespace": "default",
            "dataworkflowservices.github.io/workflow.uid": self.workflow_uid,
            "nnf.cray.hpe.com/directive_index": "0",
            "nnf.cray.hpe.com/job_id": "287341",
            "nnf.cray.hpe.com/pinned_storage_profile_name": self.directive(),
            "nnf.cray.hpe.com/pinned_storage_profile_namespace": "default",
        })
    }

    fn storage_labels(&self) -> Value {
        let mut labels = self.labels("NnfStorage", &self.directive(), &self.storage_uid);
        labels["nnf.cray.hpe.com/allocationset"] = json!(self.file_system);
        labels
    }

    fn mount_labels(&self, access: &str) -> Value {
        // These tests create no NnfAccess: the workflow's uid stands for the uid of the NnfAccess.
        let mut labels = self.labels("NnfAccess", access, &self.workflow_uid);
        labels["nnf.cray.hpe.com/target_directive_index"] = json!("0");
        labels["nnf.cray.hpe.com/target_owner_uid"] = json!(self.storage_uid);
        labels
    }

    /// Returns the job's pinned profile: one volume group, and so one volume, per allocation.
    ///
    /// The LVM commands are those of the sites' default profile; volumes without LVM ignore them.
    #[must_use]
    pub fn profile(&self) -> Value {
        let raw = self.file_system == "raw";
        let mount = if raw { "-o bind $DEVICE $MOUNT_PATH" } else { "$DEVICE $MOUNT_PATH" };
        let mut rabbit = json!({"mount": mount, "unmount": "$MOUNT_PATH"});
        let mut hooks = json!({});
        if !raw {
            rabbit["mkfs"] = json!(if self.is_shared() { GFS2 } else { "$DEVICE" });
            hooks["postSetup"] = json!(["chown $USERID:$GROUPID $MOUNT_PATH"]);
        }
        json!({
            "apiVersion": NNF, "kind": "NnfStorageProfile",
            "metadata": {"name": self.directive(), "namespace": "default"},
            "data": {
                "pinned": true,
                format!("{}Storage", self.file_system): {
                    "blockDeviceCommands": volume_commands(self.is_shared()),
                    "fileSystemCommands": {
                        "rabbitCommands": rabbit,
                        "computeCommands": {"mount": mount, "unmount": "$MOUNT_PATH"},
                    },
                    "userCommands": hooks,
                },
            },
        })
    }

    /// Returns the NnfNodeBlockStorage that the NnfStorage controller creates for a rabbit. It has the capacity, and
    /// access for the rabbit alone unless `granted` is set.
    #[must_use]
    pub fn block_storage(&self, chassis: &Chassis, granted: bool) -> Value {
        let reach = |computes: &[(String, u8)]| {
            let computes = computes.iter().filter(|_| granted).map(|(compute, _)| compute);
            [&chassis.rabbit].into_iter().chain(computes).cloned().collect::<Vec<_>>()
        };
        let allocations: Vec<_> = if self.is_shared() {
            let capacity = (self.capacity + PADDING) * chassis.computes.len() as u64;
            vec![json!({"capacity": capacity, "access": reach(&chassis.computes)})]
        } else {
            let own = chassis.computes.chunks(1);
            own.map(|own| json!({"capacity": self.capacity, "access": reach(own)})).collect()
        };
        json!({
            "apiVersion": NNF, "kind": "NnfNodeBlockStorage",
            "metadata": {"name": self.node_storage(), "namespace": chassis.rabbit, "labels": self.storage_labels()},
            "spec": {"sharedAllocation": self.is_shared(), "allocations": allocations},
        })
    }

    /// Returns the NnfNodeStorage that the NnfStorage controller creates beside the NnfNodeBlockStorage, with a
    /// file system per allocation.
    #[must_use]
    pub fn file_systems(&self, chassis: &Chassis) -> Value {
        let variables = json!([
            {"name": "$ALLOCATION_COUNT", "value": chassis.computes.len().to_string()},
            {"name": "$HOST_COUNT", "value": (chassis.computes.len() + 1).to_string()},
            {"name": "$JOBID", "value": "287341"},
            {"name": "$DIRECTIVE_INDEX", "value": "0"},
            {"name": "$WORKFLOW_UID", "value": self.workflow_uid},
            {"name": "$USERID", "value": self.user.to_string()},
            {"name": "$GROUPID", "value": self.user.to_string()},
        ]);
        json!({
            "apiVersion": NNF, "kind": "NnfNodeStorage",
            "metadata": {"name": self.node_storage(), "namespace": chassis.rabbit, "labels": self.storage_labels()},
            "spec": {
                "count": chassis.computes.len(), "sharedAllocation": self.is_shared(), "capacity": self.capacity,
                "userID": self.user, "groupID": self.user, "fileSystemType": self.file_system,
                "commandVariables": variables,
                "lustreStorage": {"lustreComponents": {}},
                "blockReference": {
                    "kind": "NnfNodeBlockStorage", "name": self.node_storage(), "namespace": chassis.rabbit,
                },
            },
        })
    }

    /// Returns the ClientMount that the NnfAccess controller creates in the namespace of the compute at index `place`,
    /// from the status of `block_storage`, which the rabbit wrote.
    #[must_use]
    pub fn compute_mount(&self, chassis: &Chassis, place: usize, block_storage: &Value) -> Value {
        let devices = block_storage["status"]["allocations"][self.allocation(place)]["devices"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let namespaces: Vec<_> = devices
            .iter()
            .map(|device| {
                json!({"deviceSerial": device["NQN"], "namespaceID": device["namespaceId"], "namespaceGUID": ""})
            })
            .collect();
        let device = json!({
            "type": "lvm",
            "lvm": {"deviceType": "nvme", "nvmeInfo": namespaces},
            "deviceReference": self.device_reference(chassis, place),
        });
        let node = &chassis.computes[place].0;
        json!({
            "apiVersion": DWS, "kind": "ClientMount",
            "metadata": {
                "name": self.computes_mount(), "namespace": node,
                "labels": self.mount_labels(&format!("{}-computes", self.directive())),
            },
            "spec": {
                "node": node, "desiredState": "mounted",
                "mounts": [self.mount(&self.mount_path(), &device)],
            },
        })
    }

    /// Returns the ClientMount that the NnfAccess controller creates in the rabbit's namespace. It mounts every
    /// allocation at a path that ends with the allocation's index.
    #[must_use]
    pub fn rabbit_mount(&self, chassis: &Chassis) -> Value {
        let mounts: Vec<_> = chassis
            .computes
            .iter()
            .enumerate()
            .map(|(place, (compute, _))| {
                let device = json!({"type": "reference", "deviceReference": self.device_reference(chassis, place)});
                let mut mount = self.mount(&format!("{}/node-{place}", self.mount_path()), &device);
                mount["compute"] = json!(compute);
                mount
            })
            .collect();
        json!({
            "apiVersion": DWS, "kind": "ClientMount",
            "metadata": {
                "name": self.servers_mount(), "namespace": chassis.rabbit,
                "labels": self.mount_labels(&format!("{}-servers", self.directive())),
            },
            "spec": {"node": chassis.rabbit, "desiredState": "mounted", "mounts": mounts},
        })
    }

    fn device_reference(&self, chassis: &Chassis, place: usize) -> Value {
        let mut reference = json!({
            "objectReference": {"kind": "NnfNodeStorage", "name": self.node_storage(), "namespace": chassis.rabbit},
        });
        // The JSON encoder of the sites' Go types omits an index of zero.
        if place > 0 {
            reference["data"] = json!(place);
        }
        reference
    }

    fn mount(&self, path: &str, device: &Value) -> Value {
        let raw = self.file_system == "raw";
        json!({
            "mountPath": path, "setPermissions": raw,
            "userID": self.user, "groupID": self.user,
            "options": if raw { "bind" } else { "" },
            "type": if raw { "none" } else { self.file_system },
            "targetType": if raw { "file" } else { "directory" },
            "device": device,
        })
    }
}

/// The sites' arguments of mkfs.gfs2: one journal for the rabbit and one for the compute. The journals are smaller than
/// at the sites, to fit small drives.
const GFS2: &str = "-j2 -J8 -p $PROTOCOL -t $CLUSTER_NAME:$LOCK_SPACE $DEVICE";

/// Bytes of each allocation that LVM needs in addition to the volume.
const PADDING: u64 = 32 << 20;

/// Returns a profile's LVM commands: they make a volume group for each allocation, or one group that all
/// nodes share under locks.
fn volume_commands(shared: bool) -> Value {
    let activate = if shared { "ys" } else { "y" };
    let activation = json!({
        "activate": format!("--activate {activate} $VG_NAME/$LV_NAME"),
        "deactivate": "--activate n $VG_NAME/$LV_NAME",
    });
    let (locks, flag, size) = if shared {
        let locks =
            json!({"lockStart": "--lock-start $VG_NAME", "lockStop": "--lock-stop $VG_NAME"});
        (locks, "--shared ", "--size $LV_SIZE")
    } else {
        (json!({}), "", "--extents $PERCENT_VG")
    };
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

//! The settings of the site's profiles that determine the capacity and placement of storage. Texts are copied from the
//! profile without parsing; an error about a text names the profile's field.

/// Settings of an NnfStorageProfile that determine the breakdown of a directive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageProfile {
    pub raw: LocalOptions,
    pub xfs: LocalOptions,
    pub gfs2: LocalOptions,
    pub lustre: LustreOptions,
}

/// Settings of file systems other than Lustre.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalOptions {
    /// Field `capacityScalingFactor`, as decimal text.
    pub scaling_factor: String,
    /// Field `allocationPadding`, such as `3.5%` or `100MiB`.
    pub padding: String,
    /// Field `storageLabels`, labels of the Storage objects.
    pub labels: Vec<String>,
}

/// Settings of Lustre file systems.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LustreOptions {
    /// Field `combinedMgtMdt`: one target serves both management and metadata.
    pub combined: bool,
    /// Field `mgtOptions.externalMgs`: addresses, or `pool:<name>`.
    pub external_mgs: String,
    /// Field `mgtOptions.standaloneMgtPoolName`, a name of a pool.
    pub standalone_pool: String,
    /// Field `mdtOptions.exclusive`: a metadata target shares its rabbit with no other target.
    pub exclusive_mdt: bool,
    pub mgt: TargetOptions,
    pub mdt: TargetOptions,
    pub mgt_mdt: TargetOptions,
    pub ost: TargetOptions,
}

/// Settings of one kind of Lustre target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetOptions {
    /// Field `capacity`; not used for an OST. An empty text means 5GiB, the CRD's default.
    pub capacity: String,
    /// Field `capacityScalingFactor`; used for an OST only.
    pub scaling_factor: String,
    pub count: Option<u32>,
    pub scale: Option<u32>,
    /// Field `colocateComputes`: the targets are only on rabbits that serve the job's computes.
    pub colocate_computes: bool,
    /// Field `storageLabels`, labels of the Storage objects.
    pub labels: Vec<String>,
}

/// Settings of an NnfContainerProfile that determine which directives may name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerProfile {
    /// True for a pinned copy, which belongs to one workflow.
    pub is_pinned: bool,
    /// The only user that may use the profile; `None` for any.
    pub user: Option<u32>,
    /// The only group that may use the profile; `None` for any.
    pub group: Option<u32>,
    pub storages: Vec<ContainerStorage>,
}

/// Storage that the containers of a profile use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerStorage {
    /// Name of the argument, such as `DW_JOB_local_storage`.
    pub name: String,
    pub is_optional: bool,
}

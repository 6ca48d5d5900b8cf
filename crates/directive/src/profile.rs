//! What the site's profiles say about capacity and shape of storage. Texts are as the profile has them; an error of one names
//! its field.

/// The parts of an NnfStorageProfile that decide on breakdowns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageProfile {
    pub raw: LocalOptions,
    pub xfs: LocalOptions,
    pub gfs2: LocalOptions,
    pub lustre: LustreOptions,
}

/// Of storage whose allocations belong to computes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalOptions {
    /// `capacityScalingFactor`
    pub scaling_factor: String,
    /// `allocationPadding`
    pub padding: String,
    /// `storageLabels`
    pub labels: Vec<String>,
}

/// Of Lustre.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LustreOptions {
    /// `combinedMgtMdt`
    pub combined: bool,
    /// `mgtOptions.externalMgs`
    pub external_mgs: String,
    /// `mgtOptions.standaloneMgtPoolName`
    pub standalone_pool: String,
    /// `mdtOptions.exclusive`
    pub exclusive_mdt: bool,
    pub mgt: TargetOptions,
    pub mdt: TargetOptions,
    pub mgt_mdt: TargetOptions,
    pub ost: TargetOptions,
}

/// Of one kind of Lustre target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetOptions {
    /// `capacity`; unused for an OST. Empty for 5GiB, the CRD's default.
    pub capacity: String,
    /// `capacityScalingFactor`; used for an OST.
    pub scaling_factor: String,
    pub count: Option<u32>,
    pub scale: Option<u32>,
    /// `colocateComputes`
    pub colocate_computes: bool,
    /// `storageLabels`
    pub labels: Vec<String>,
}

/// The parts of an NnfContainerProfile that decide on admission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerProfile {
    /// A copy that belongs to a workflow.
    pub is_pinned: bool,
    /// The one user that may use it.
    pub user: Option<u32>,
    /// The one group that may use it.
    pub group: Option<u32>,
    pub storages: Vec<ContainerStorage>,
}

/// Storage that a container profile provides for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerStorage {
    /// Such as `DW_JOB_local_storage`.
    pub name: String,
    pub is_optional: bool,
}

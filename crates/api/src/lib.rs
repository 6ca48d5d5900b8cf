//! Kubernetes types of the Rabbit storage, one kind per file.
//!
//! The types of this crate decode the JSON of an API server. Agents validate each decoded object once, and write
//! changes as patches, which [`change()`] makes. The CRDs ([`crds`]) are generated from the same types.
//!
//! Guarantees:
//! * JSON names, enumerations, defaults and required fields are the same as upstream's: in DWS v1alpha7, NNF v1alpha11
//!   and, for `LustreFileSystem`, in v1beta1 of lustre-fs-operator. `ContainerRun` and `NodeContainers` are Warren's
//!   own.
//! * Fields that these types do not model survive a read-modify-write through [`change()`].
//! * An enumeration keeps an unknown value (`Other`), so that one object of a newer controller does not make a list
//!   unreadable.
//! * Empty optional fields are left out, as the Go controllers leave them out.
//!
//! Assumption: the server has checked each object against the schema of its CRD. This crate makes no further checks.

#![warn(missing_docs)]
#![expect(
    clippy::duplicated_attributes,
    reason = "every printcolumn of kube's attribute has the same keys"
)]

pub mod change;
pub mod client_mount;
mod cluster_kind;
pub mod computes;
pub mod container_run;
pub mod crd;
pub mod directive_breakdown;
pub mod dw_directive_rule;
pub mod fs_name;
pub mod kubernetes_node;
pub mod lustre_file_system;
pub mod micro_time;
pub mod names;
pub mod nested;
pub mod nnf_container_profile;
pub mod nnf_data_movement;
pub mod nnf_data_movement_profile;
pub mod nnf_lustre_mgt;
pub mod nnf_node;
pub mod nnf_node_block_storage;
pub mod nnf_node_storage;
pub mod nnf_port_manager;
pub mod nnf_storage_profile;
pub mod nnf_system_storage;
mod no_profile;
pub mod node_containers;
pub mod number_or_text;
mod omit;
pub mod package;
pub mod persistent_storage_instance;
pub mod persistent_volume;
pub mod resource_error;
mod schema;
pub mod servers;
pub mod storage;
mod string_enum;
pub mod system_configuration;
pub mod system_status;
pub mod workflow;

pub use change::{change, guarded_change};
pub use client_mount::{ClientMount, ClientMountSpec, ClientMountStatus};
pub use computes::{Computes, ComputesBody};
pub use container_run::{ContainerRun, ContainerRunPhase, ContainerRunSpec, ContainerRunStatus};
pub use crd::{crd_values, crds, ruled_crd_values};
pub use directive_breakdown::{
    DirectiveBreakdown, DirectiveBreakdownSpec, DirectiveBreakdownStatus,
};
pub use dw_directive_rule::{DWDirectiveRule, DWDirectiveRuleBody};
pub use kubernetes_node::KubernetesNode;
pub use lustre_file_system::{LustreFileSystem, LustreFileSystemSpec, LustreFileSystemStatus};
pub use micro_time::MicroTime;
pub use names::RabbitLabels;
pub use nested::Nested;
pub use nnf_container_profile::{
    NnfContainerProfile, NnfContainerProfileBody, NnfContainerProfileData,
};
pub use nnf_data_movement::{NnfDataMovement, NnfDataMovementSpec, NnfDataMovementStatus};
pub use nnf_data_movement_profile::{
    NnfDataMovementProfile, NnfDataMovementProfileBody, NnfDataMovementProfileData,
};
pub use nnf_lustre_mgt::{NnfLustreMgt, NnfLustreMgtSpec, NnfLustreMgtStatus};
pub use nnf_node::{NnfNode, NnfNodeSpec, NnfNodeStatus};
pub use nnf_node_block_storage::{
    NnfNodeBlockStorage, NnfNodeBlockStorageSpec, NnfNodeBlockStorageStatus,
};
pub use nnf_node_storage::{NnfNodeStorage, NnfNodeStorageSpec, NnfNodeStorageStatus};
pub use nnf_port_manager::{NnfPortManager, NnfPortManagerSpec, NnfPortManagerStatus};
pub use nnf_storage_profile::{NnfStorageProfile, NnfStorageProfileBody, NnfStorageProfileData};
pub use nnf_system_storage::{NnfSystemStorage, NnfSystemStorageSpec, NnfSystemStorageStatus};
pub use no_profile::NoProfile;
pub use node_containers::{NodeContainers, NodeContainersSpec, NodeContainersStatus};
pub use number_or_text::NumberOrText;
pub use persistent_storage_instance::{
    PersistentStorageInstance, PersistentStorageInstanceSpec, PersistentStorageInstanceStatus,
};
pub use persistent_volume::PersistentVolume;
pub use resource_error::{ErrorType, ResourceError, Severity};
pub use servers::{Servers, ServersSpec, ServersStatus};
pub use storage::{Storage, StorageSpec, StorageStatus};
pub use system_configuration::{
    SystemConfiguration, SystemConfigurationSpec, SystemConfigurationStatus,
};
pub use system_status::{SystemStatus, SystemStatusBody};
pub use workflow::{Workflow, WorkflowSpec, WorkflowState, WorkflowStatus};

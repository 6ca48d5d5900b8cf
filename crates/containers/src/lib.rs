//! Containers next to the data: what a workflow's `#DW container` becomes on Kubernetes, or where the rabbits' agents run it. Pure:
//! no I/O and no clock.
//!
//! ```text
//! NnfContainerProfile ─ check ─► faults, told in Proposal
//! profile, placement, storages, ports ─ objects ─► Service, ConfigMap, one Job for each rabbit, and one for the launcher of MPI
//!                                       ├ volumes ─► a PersistentVolume and its claim for each device of raw storage
//!                                       └ on_rabbit ─► one NodeContainers for each rabbit, where no Kubernetes is
//! Jobs, Pods ─ outcome ─► starting, ready, ended, failed and why
//! ```
//! Kubernetes does what it does already: a Job starts a container again that failed, holds its deadline and counts its pods.
//! A Job for each rabbit, and not one Job for all: a Job has one template, and cannot bind its pods to one rabbit each.
//!
//! # Guarantees
//! * The objects of a run follow from their inputs alone, and have names that follow from the workflow's and the rabbits'.
//! * A pod has no token for the API, no capability and nothing of its host but the storage that its directive names.
//! * It runs as the workflow's user and group, never as root.

pub mod check;
pub mod claim;
pub mod environment;
mod expand;
pub mod mpi;
pub mod names;
pub mod nodes;
pub mod objects;
pub mod on_rabbit;
pub mod outcome;
pub mod package;
pub mod pod;
pub mod ports;
mod quantity;
pub mod run;
pub mod volumes;

pub use check::ProfileFault;
pub use mpi::Attempt;
pub use names::NameFault;
pub use package::Package;
pub use run::{Device, Rabbit, Run, StoragePath, StorageSource};

//! Containers next to the data: what a workflow's `#DW container` becomes on Kubernetes. Pure: no I/O and no clock.
//!
//! ```text
//! NnfContainerProfile ─ check ─► faults, told in Proposal
//! profile, placement, storages, ports ─ objects ─► Service, ConfigMap, one Job for each rabbit, and one for the launcher of MPI
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
pub mod mpi;
pub mod names;
pub mod nodes;
pub mod objects;
pub mod outcome;
pub mod pod;
pub mod ports;
pub mod run;

pub use check::ProfileFault;
pub use mpi::Attempt;
pub use names::NameFault;
pub use run::{Rabbit, Run, StoragePath};

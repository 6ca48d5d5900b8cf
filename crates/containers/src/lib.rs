//! Containers next to the data: turns a workflow's `#DW container` directive into objects of Kubernetes, or into
//! objects that the rabbits' agents carry out. Pure: no I/O and no clock.
//!
//! ```text
//! NnfContainerProfile ─ check ─► faults, which Proposal reports
//! profile, placement, storages, ports ┬ objects ─► Service, ConfigMap, a Job for each rabbit, a Job for MPI's launcher
//!                                     ├ volumes ─► PersistentVolume and PersistentVolumeClaim of each raw device
//!                                     └ on_rabbit ─► NodeContainers for each rabbit, where the agents run containers
//! Jobs, Pods ─ outcome ─► starting, ready, ended, or failed with a reason
//! ```
//! Kubernetes has its usual part: a Job restarts a failed container, enforces its deadline and counts its
//! pods. Each rabbit needs its own Job, because a Job has a single pod template, and so cannot bind each of
//! its pods to another rabbit.
//!
//! # Words
//! * A rabbit is a node with drives; its agent is Warren's program there. A compute is a node that runs jobs.
//! * A run is the containers of one directive, on all rabbits that serve the job's computes. An attempt is one try of
//!   the run.
//! * A NodeContainers has the containers, or the job packages, of a run for the agent of one rabbit.
//! * A coordinator is a process that drives workflows: its engine creates the objects that this crate plans.
//!
//! `docs/develop/words.md` explains the words that all crates use.
//!
//! # Guarantees
//! * The objects of a run depend only on the run's inputs. Their names are made of the workflow's and the rabbits'
//!   names.
//! * A pod has no token for the API and no capability. Of its host it sees only the storage that its directive names.
//! * A pod runs as the workflow's user and group, never as root.

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
pub use package::JobPackage;
pub use run::{Device, Rabbit, Run, StoragePath, StorageSource};

//! NodeContainers: containers of workflows on this rabbit, where no Kubernetes runs them, and packages of containers, whoever runs
//! these.
//!
//! # Flow
//! ```text
//! NodeContainers ─ desired ─► Desired ┐
//!                                     ├─ plan (pure) ─► Vec<Step> ─ arguments (pure) ─► podman
//! podman ps, inspect, logs ─► Observed ┘
//! Desired, Observed ─ report (pure) ─► status
//! ```
//! An attempt is one pod of podman: its containers share a network and a host name. An attempt that failed is followed by the
//! next, in a pod of its own, and stays with its logs until the object is deleted.
//!
//! # Guarantees
//! * What is ours bears the object's uid and its attempt in its labels. An agent that starts finds it there and starts nothing
//!   twice.
//! * Nothing starts before its storage is mounted by this agent: after a reboot a container must not write into an empty
//!   directory.
//! * A container has no capability, cannot gain privileges, and sees of its rabbit only its storage, and what is mounted as a Lustre
//!   outside of where jobs' storage is.
//! * Keys are files of the containers' user alone, and go once nothing may start any more.
//! * Directories that the containers of an attempt share are their user's alone, and go once nothing of the attempt runs.
//! * The log of a container that runs is read when somebody asks for it by an annotation, and told once.
//! * A pod of MPI is in the network of its run before any container of it starts.
//! * A final state stands in the status. Nothing is started after it.
//!
//! # Caveats
//! Deadlines count on this rabbit's clock.

pub mod args;
mod arguments;
pub mod desired;
mod global_lustre;
pub mod host;
mod log;
pub mod observed;
pub mod packages;
pub mod phase;
pub mod plan;
mod podman;
mod read;
mod reconcile;
pub mod report;
pub mod step;

pub use host::Host;
pub use podman::PodmanHost;
pub use reconcile::{View, reconcile};

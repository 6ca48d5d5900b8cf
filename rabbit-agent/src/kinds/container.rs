//! Reconciles NodeContainers: runs workflow containers with podman on a rabbit without Kubernetes, and fetches the job
//! packages of containers, whether podman or the kubelet runs them.
//!
//! # Flow
//! ```text
//! NodeContainers ─ desired ─► Desired ┐
//!                                     ├─ plan (pure) ─► Vec<Step> ─ arguments (pure) ─► podman
//! podman ps, inspect, logs ─► Observed ┘
//! Desired, Observed ─ report (pure) ─► status
//! ```
//! An attempt is one podman pod: its containers share a network and a host name. After a failed attempt the next
//! attempt gets a pod of its own; the failed pod and its logs stay until the object is deleted.
//!
//! # Guarantees
//! * Every pod and container has labels with the object's uid and the attempt number. A restarted agent finds them by
//!   these labels and starts nothing twice.
//! * No container starts before this agent has mounted the container's storage: after a reboot a container must not
//!   write into an empty directory.
//! * A container has no capability, cannot gain privileges, and sees only two kinds of the rabbit's files: its storage,
//!   and the global Lustre mounts that it asks for.
//! * Only the containers' user can read the key files. The agent removes the key files once no further attempt may
//!   start.
//! * Only the containers' user can use the directories that an attempt's containers share. The agent removes these
//!   directories once no process of the attempt runs.
//! * The agent reads the log of a running container when an annotation asks for the log, and reports it once for each
//!   request.
//! * An MPI pod is connected to the network of its run before any of its containers starts.
//! * Once the status has a final state, the agent starts no container.
//!
//! # Caveats
//! Deadlines use this rabbit's clock.

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
pub(crate) use read::read_missing;
pub use reconcile::{ContainersView, reconcile, start_blocker};

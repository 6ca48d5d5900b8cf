//! The agent of a compute: mounts what ClientMounts ask for, which it receives from a coordinator or from its own watch on the
//! API.
//!
//! # Path of data
//! ```text
//! coordinator ─ agent::link ─► agent ─ agent::desired, reconcile, report ─► agent::outbox ─► coordinator
//! API ─────────────── direct ─►                                                          └─► direct ─► API
//! script ───────────── serve ─► job (waits for agent and coordinator) ─► script
//! ```
//! # At rest
//! * Served by a coordinator, the agent holds no Kubernetes credential. With a kubeconfig it restarts its watch every 5
//!   minutes.
//! * It reads mounts from sysfs and the mount table, and starts LVM tools only to make, activate or take down a volume.
//! * An agent that runs on demand ends when no client is connected to its socket, no work or retry is left, and the API
//!   has all reports. Its only timer runs once it is idle.
//!
//! # Scripts
//! * The verbs `mount` and `unmount` change nothing: the ClientMounts alone say what to mount. A verb ends with 0 only
//!   when the agent has done it and the API has the report (`job::judge`, pure). It ends with 7 without a coordinator,
//!   with 8 without an agent.
//! * No verb says that a job does not exist, or has no mounts on this node, before a list that was requested after the
//!   question (`jobs`).
//! * A deleted ClientMount whose node is not connected loses its finalizer only if the SystemConfiguration calls the
//!   node a compute, and the status says that all is unmounted. Before an agent mounts anything of the object again, it
//!   or its coordinator takes that back in the status. A status is written only to the generation that it describes.
//!
//! # Guarantees
//! * The agent unmounts nothing because the coordinator or the API is away, and leaves no unwanted mount of Warren's.
//! * At rest the agent has one idle connection and no timer; when it watches the API it restarts the watch about once an hour.

pub mod agent;
pub mod clients;
pub mod config;
pub mod direct;
pub mod idle;
pub mod job;
pub mod kubernetes;
pub mod run;
pub mod serve;
pub mod subcommand;
pub mod view;

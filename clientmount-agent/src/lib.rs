//! The agent of a compute: mounts the storage that ClientMounts request. It receives the ClientMounts from a
//! coordinator or from its own watch on the API.
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
//! * The verbs `mount` and `unmount` only wait: the ClientMounts alone say what to mount. A verb exits with 0 only when
//!   the agent has done the work and the API has the report (`job::judge`, pure). A verb exits with 7 if no coordinator
//!   answers, and with 8 if no agent answers.
//! * Before a verb reports that a job does not exist, or has no mounts on this node, the coordinator lists the API's
//!   objects anew, because the coordinator's watch may lag behind (`jobs`).
//! * A deleted ClientMount whose node is not connected loses its finalizer only if the SystemConfiguration calls the
//!   node a compute, and the status says that all is unmounted. Should the object be mounted after such a status,
//!   the agent or its coordinator replaces the status first. A status is written only while the object has the generation
//!   that the status describes.
//!
//! # Guarantees
//! * The agent does not unmount when it loses the coordinator or the API. It removes every mount of Warren's that no
//!   object requests.
//! * At rest the agent has one idle connection and no timer; when it watches the API it restarts the watch about once
//!   an hour.

pub mod agent;
pub mod clients;
pub mod config;
pub mod direct;
pub mod dry_run;
pub mod idle;
pub mod job;
pub mod kubernetes;
pub mod run;
pub mod serve;
pub mod subcommand;
pub mod view;

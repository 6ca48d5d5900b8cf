//! Storage on one node: its desired state, its observed state, and the steps from one to the other.
//!
//! # Path of data
//! ```text
//! Desired ─┐
//!          ├─ plan (pure) ─► Vec<Step> ─ execute ─► Host::apply
//! Observed ┘                                          │
//!    ▲──────── observe and plan again, until no steps ◄┘
//! ```
//! If drives are not ready, the plan begins with the steps that make them ready (`plan::prepare`), each tried once.
//!
//! # Words
//! `docs/develop/words.md` defines Warren's words, such as *ledger*, *foreign* and *hook scope*. This crate also uses:
//! * *Unit*: one [`Desired`]. Each unit converges, fails and is reported separately.
//! * *Object*: the Kubernetes object that asks for a unit, for example an NnfNodeBlockStorage or a ClientMount.
//! * *Site's line*: a command line, or the arguments of a command, in the site's NnfStorageProfile (*the profile*).
//! * *The sites' controllers*: the Go controllers of NearNodeFlash, with which Warren's agents also work. *An earlier
//!   agent* is the agent of NearNodeFlash that managed a node before Warren's agent.
//!
//! # Guarantees
//! * `plan` does no I/O and reads no clock. A unit is done when the planner returns no more steps, so after a crash at
//!   any point the agent simply plans again.
//! * A rejected plan has no steps; steps of earlier rounds stay done. The agent formats, wipes, detaches or unmounts only
//!   what is provably Warren's.
//! * A mount or tree counts as gone when no part of it that Warren made is left. A foreign mount at the same path stays,
//!   and does not matter unless it covers one of Warren's mounts: then the unit is rejected.
//! * A volume counts as gone when it cannot be used any more. LVM's metadata may stay on the namespaces of a group that
//!   has lost a device; it goes with the namespaces.
//! * For each group of units ([`Desired::group`]), one call converges at a time; groups converge in parallel, up to 16
//!   for each call.
//!
//! # Assumptions
//! The caller runs as root, in the mount namespace whose mounts it means to change, and on a thread that may block.

pub mod converge;
pub mod desired;
pub mod execute;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod health;
pub mod host;
pub mod observe;
pub mod observed;
mod panicked;
pub mod plan;
pub mod step;
pub mod template;

pub use converge::{ConvergeError, Converged, Converger, NotConverging, Rounds};
pub use desired::Desired;
pub use host::Host;
pub use observed::Observed;
pub use panicked::{Panicked, caught};
pub use plan::{Rejection, plan};
pub use step::Step;

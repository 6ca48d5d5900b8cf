//! Storage on one node: what should be, what is, and the steps between them.
//!
//! # Path of data
//! ```text
//! Desired ─┐
//!          ├─ plan (pure) ─► Vec<Step> ─ execute ─► Host::apply
//! Observed ┘                                          │
//!    ▲──────── look again, plan again, until no steps ◄┘
//! ```
//! # Guarantees
//! * `plan` does no I/O and reads no clock. Done means that planning again yields nothing, so a crash at any point is
//!   answered by starting again.
//! * A [`Rejection`] changes nothing. Nothing is formatted, wiped, detached or unmounted unless it is provably ours.
//! * One converge at a time per [`Desired::group`]; any number of groups side by side.
//!
//! # Assumptions
//! The caller runs as root in the mount namespace whose mounts it means to change, and calls from a thread that may block.

pub mod converge;
pub mod desired;
pub mod execute;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod host;
pub mod linux;
mod look;
pub mod observed;
pub mod plan;
pub mod step;
pub mod template;

pub use converge::{ConvergeError, Converged, Converger};
pub use desired::Desired;
pub use host::Host;
pub use linux::LinuxHost;
pub use observed::Observed;
pub use plan::{Rejection, plan};
pub use step::Step;

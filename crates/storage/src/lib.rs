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
//! * Being gone means that nothing of ours is there: somebody else's mount at the same path is neither touched nor in the
//!   way, and what of ours lies beneath one is a rejection.
//! * One converge at a time per [`Desired::group`]; any number of groups side by side.
//! * A look at a real node comes back within twice [`linux::LinuxConfig::mount_deadline`], or fails and says where in the
//!   kernel it stands: a dead device or a server that is gone keeps its own unit waiting and no other. A mount is looked at
//!   with `AT_STATX_DONT_SYNC` (statx(2)), so that one whose server does not answer can be told and unmounted.
//!
//! # Caveats
//! * A look that hangs keeps one thread until the kernel lets go, and until then its group is not looked at again. A process
//!   with such a thread cannot end entirely, not even by SIGKILL.
//! * mount(2), umount(2), chown(2), wiping and detaching happen in a child with a deadline, commands in a process group with
//!   one. What a step looks at in between is local and not bounded: openat2(2) beneath the root, the mount table, and after
//!   a mkfs the device that it just wrote. The path of an NFS or 9p mount that somebody made at a mount point of ours
//!   is revalidated with its server by the kernel when a step passes it.
//! * An agent that is killed takes along the program it started, but not what that program started: a line of several
//!   commands may go on beside its own repetition, unless the service manager ends the whole control group.
//!
//! # Assumptions
//! The caller runs as root in the mount namespace whose mounts it means to change, and calls from a thread that may block.

pub mod converge;
pub mod desired;
pub mod execute;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod health;
pub mod host;
pub mod linux;
mod observe;
pub mod observed;
mod panicked;
pub mod plan;
pub mod step;
pub mod template;

pub use converge::{ConvergeError, Converged, Converger};
pub use desired::Desired;
pub use host::Host;
pub use linux::LinuxHost;
pub use observed::Observed;
pub use panicked::{Panicked, caught};
pub use plan::{Rejection, plan};
pub use step::Step;

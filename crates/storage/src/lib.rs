//! Storage on one node: its desired state, its observed state, and the steps from one to the other.
//!
//! # Path of data
//! ```text
//! Desired ─┐
//!          ├─ plan (pure) ─► Vec<Step> ─ execute ─► Host::apply
//! Observed ┘                                          │
//!    ▲──────── observe and plan again, until no steps ◄┘
//! ```
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
//! * A [`Rejection`] changes nothing. The agent formats, wipes, detaches or unmounts only what is provably Warren's.
//! * A mount, volume or tree counts as gone when no part of it that Warren made is left. A foreign mount at the same
//!   path stays, and does not matter unless it covers one of Warren's mounts: then the unit is rejected.
//! * For each group of units ([`Desired::group`]), one call converges at a time; any number of groups converge in
//!   parallel.
//! * An observation of a real node returns within twice [`linux::LinuxConfig::mount_deadline`], or fails and names the
//!   place in the kernel where it hangs. A dead device or server therefore delays only the unit that uses it. Mounts
//!   are read with `AT_STATX_DONT_SYNC` (statx(2)), so that a mount whose server does not answer can be observed and
//!   unmounted.
//!
//! # Tasks that only one module may do
//! * Only `linux::cmd` and `linux::worker` start programs, only `linux::child` forks, and only `linux::mount` mounts
//!   and unmounts.
//! * `linux::hung` alone describes what hangs: each process, its place in the kernel, and the DLM locks that this node
//!   was not granted.
//!
//! # Caveats
//! * An observation that hangs blocks one thread until the kernel returns; until then the same unit is not observed
//!   again. A process with such a thread cannot end entirely, not even by SIGKILL.
//! * mount(2), umount(2), chown(2), wiping and detaching run in a child process with a deadline, and commands in a
//!   process group with a deadline. The reads between these calls are local and have no deadline: openat2(2) beneath
//!   the root, reads of the mount table, and the read of a device after its mkfs. A step that walks to a mount point of
//!   Warren's waits for a server only if another program has mounted NFS or 9p on that path.
//! * When an agent is killed, the kernel kills the program that the agent started, but not the children of that
//!   program. If a site's line has several commands, one of them may still run while the next agent runs the line
//!   again, unless the service manager ends the whole control group.
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

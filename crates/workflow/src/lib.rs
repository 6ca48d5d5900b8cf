//! The workflow engine: drives each Workflow from Proposal to Teardown by what its `#DW` directives ask for, with nothing but
//! the objects that sites' tools and Warren's agents read.
//!
//! ```text
//! watches ─► World ─ view ─► plan (pure) ─► Vec<Change> ─ execute ─► API
//!              ▲                 │ outcomes ─ report (pure) ─► the workflow's status, one more change
//!              └── the API's answers, and what the watches bring
//! ```
//! The same loop as on a node, with objects instead of steps: look, plan, act, until planning again yields nothing.
//!
//! # Guarantees
//! * No state of the engine matters: killed after any change, it goes on from the objects.
//! * A change names the version that it was planned from; the API refuses it when the object moved on, and it is planned anew.
//! * Directives are planned one by one and carried out side by side: none waits for another, or fails with it.
//! * Nothing is made before the workflow carries a finalizer, and the finalizer stays until nothing of it is on any node.
//! * Access is withdrawn from who has provably unmounted, or is down by evidence; storage goes after all access has.
//! * Storage of other controllers is not touched: ours names a Servers as its owner.
//! * At rest the engine asks nothing and runs no timer, but one for each workflow whose containers have a deadline or a time to live.
//!
//! # Invariants
//! * Storage that was made and has vanished is never made again: a job must not find an empty file system in place of
//!   its data.
//! * While the engine cannot read a block storage, file system or mount of the workflow, it withdraws and removes
//!   nothing beside it. A Workflow that it cannot read exists: its objects stay, and its use of persistent storage goes
//!   on.
//! * An allocation belongs to the compute whose ClientMount names it, as long as that object exists.
//! * Persistent storage belongs to the workflow that makes it until one change transfers all of it. Consumers, access,
//!   mounts and its end are then changed only by its own plan. Exception: the hold of a file system on a persistent
//!   management target is written by the maker of the file system, which removes it last.
//! * The engine knows of MPI keys only that they exist: `execute` makes them where they are written, and no identity of
//!   Warren may read them. After a start it makes them again.
//! * One Servers is filled at a time, so that no byte is promised twice.
//! * A Lustre file system name is unique in the system. Names are requested one at a time, and a name in use elsewhere
//!   is returned before a target is made. A name is erased only after the last target that uses it.
//! * A Lustre target that vanished while a later one exists is not made again.
//!
//! # Fewer kinds than the sites' controllers
//! There is no NnfStorage and no NnfAccess: what they hold follows from DirectiveBreakdown, Servers and Computes, and of Lustre
//! from the NnfLustreMGT that has a claim of the Servers. Volumes are
//! named after the uid of the Servers. A Servers belongs to its Workflow, not to its breakdown, so that a breakdown that
//! somebody deletes takes nothing with it.

pub mod admit;
pub mod change;
pub mod claims;
mod engine;
pub mod execute;
pub mod external_mgt;
pub mod fs_names;
pub mod instance;
pub mod ledger;
pub mod metrics;
pub mod mgts;
pub mod names;
pub mod notes;
pub mod plan;
pub mod profile;
pub mod progress;
pub mod rabbit;
pub mod report;
pub mod shipped;
pub mod site;
pub mod view;
pub mod world;

pub use admit::{Rules, admit, complete};
pub use engine::{Reporting, run};
pub use site::{Containers, IndexNames, Settings};

//! The workflow engine: drives each Workflow from Proposal to Teardown as its `#DW` directives ask. It writes only
//! objects that workload managers and Warren's agents read.
//!
//! ```text
//! watches ─► World ─ view ─► plan (pure) ─► Vec<Change> ─ execute ─► API
//!              ▲                 │ outcomes ─ report (pure) ─► one more change: the workflow's status
//!              └── answers of the API, and events of the watches
//! ```
//! The agents run the same loop on nodes with steps instead of objects: observe, plan, act, until a plan contains no change.
//!
//! # Guarantees
//! * The engine keeps no state of its own: killed after any change, it continues from the objects.
//! * A change names the object version that it was planned from. If the object has changed since, the API refuses the
//!   change, and the engine plans again.
//! * Each directive is planned by itself and carried out beside the others: none waits for another, or fails with it.
//! * The engine creates objects only after the workflow carries its finalizer. The finalizer stays until no node holds
//!   anything of the workflow.
//! * A node loses access only when it has provably unmounted, or evidence says that it is down. Storage is removed only
//!   after all access to it has been withdrawn.
//! * The engine does not touch storage of other controllers: objects of the engine name a Servers as their owner.
//! * At rest the engine sends no requests. It runs one timer for each workflow whose containers have a deadline or
//!   a time to live.
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
//! There is no NnfStorage and no NnfAccess: the engine derives their content from DirectiveBreakdown, Servers and
//! Computes, and for Lustre from the NnfLustreMGT whose `claimList` names the Servers. Volumes are named after
//! the uid of the Servers. A Servers is owned by its Workflow, not by its DirectiveBreakdown, so deleting a
//! breakdown deletes no storage.

pub mod admit;
pub mod change;
pub mod claims;
mod engine;
pub mod execute;
pub mod external_mgt;
pub mod fs_names;
pub mod instance;
pub mod metrics;
pub mod mgts;
pub mod names;
pub mod notes;
pub mod plan;
pub mod profile;
pub mod progress;
pub mod rabbit;
pub mod report;
pub mod reservations;
pub mod shipped;
pub mod site;
pub mod view;
pub mod world;

pub use admit::{Rules, admit, complete};
pub use engine::{Reporting, run};
pub use site::{Containers, IndexNames, Settings};

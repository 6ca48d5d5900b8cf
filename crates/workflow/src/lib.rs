//! The workflow engine: drives each Workflow from Proposal to Teardown as its `#DW` directives ask. The engine writes
//! only objects that workload managers and Warren's agents read.
//!
//! ```text
//! watches ─► World ─ view ─► plan (pure) ─► Vec<Change> ─ execute ─► API
//!              ▲                 │ outcomes ─ report (pure) ─► one more change: the workflow's status
//!              └── answers of the API, and events of the watches
//! ```
//! The agents run the same loop on nodes with steps instead of objects: observe, plan, act, until a
//! plan contains no change.
//!
//! # Nodes and objects
//! A rabbit is a node with drives. It serves computes, the nodes that run jobs.
//! * A DirectiveBreakdown says which storage a directive needs. A Servers says which rabbits make this storage, and
//!   how many bytes each makes. A Computes names the job's computes. The workload manager fills the Servers and the
//!   Computes; the engine fills a Servers that is still empty in Setup.
//! * An NnfNodeBlockStorage (block storage) has allocations on the drives of one rabbit, an NnfNodeStorage (file
//!   system) the file systems or Lustre targets in these allocations. A ClientMount (mount) mounts them on one node.
//!   An NnfDataMovement (movement) is one copy.
//! * An NnfLustreMGT (management target) gives names to Lustre file systems. The holder of a name is a Servers.
//! * An NnfSystemStorage is storage of the site itself, on chosen rabbits and for chosen computes, outside any job.
//! * A PersistentStorageInstance is persistent storage, which outlives the workflow that made it.
//! * A NodeContainers has containers or job packages for the agent of one rabbit. A ContainerRun has the claim of a
//!   directive's containers: it names the coordinator that may change them.
//! * A pinned profile is a workflow's own copy of a profile of the site.
//!
//! `docs/develop/words.md` explains the words that all crates use.
//!
//! # Guarantees
//! * The engine keeps no state of its own: killed after any change, it continues from the objects.
//! * A change names the object version that it was planned from. If the object has changed since, the API refuses the
//!   change, and the engine plans again.
//! * Each directive is planned by itself, and the changes of all directives are made side by side: no directive waits
//!   for another directive, or fails because another one fails.
//! * The engine creates objects only after the workflow has the engine's finalizer. The finalizer stays until nothing
//!   of the workflow is left on any node.
//! * A node loses access only when it has provably unmounted, or evidence says that the node is down. Storage is
//!   removed only after all access to it has been withdrawn.
//! * The engine does not touch storage of other controllers. The engine recognises its own objects by their owner
//!   label, which names a Servers.
//! * At rest the engine sends no requests. It runs one timer for each workflow whose containers have a deadline or
//!   a time to live.
//!
//! # Invariants
//! * Storage that vanishes after its Setup is not made again: a job must not find an empty file system in place of its
//!   data.
//! * While the engine cannot read a block storage, file system or mount, it withdraws no access to that storage and
//!   removes nothing of it. A Workflow that the engine cannot read still exists: its objects stay, and so does its use
//!   of persistent storage.
//! * An allocation belongs to the compute whose ClientMount names it, as long as that ClientMount exists.
//! * Persistent storage belongs to the workflow that makes it. Once the storage is complete, one patch removes this
//!   owner. From then on the engine plans for the PersistentStorageInstance as it plans for each workflow, and only
//!   this plan ("the plan of the storage") changes the storage's consumers (the workflows and file systems that use
//!   it), its access and its mounts, and removes it. Exception: the plan that makes a Lustre file system also adds the
//!   file system to the consumers of a persistent management target, and removes this entry last.
//! * The engine does not keep the keys by which MPI launcher and workers authenticate: `execute` generates them while
//!   it creates their Secret. The engine knows only which Secrets exist, because no identity of Warren may read them.
//!   After a restart the engine creates the Secrets again, and an existing Secret counts as success.
//! * The engine places the allocations of one Servers at a time, so that it promises no byte to two workflows.
//! * A Lustre file system name is unique in the system. Names are requested one at a time. The engine gives back a
//!   name that another file system has, before it makes any target. A name is erased only after the last target that
//!   uses it.
//! * During Setup, a Lustre target that vanishes is not made again once a target of a later stage exists: the file
//!   system already uses the vanished target, and a new target would be empty.
//!
//! # Kinds of the Go controllers that the engine does not use
//! The Go controllers, which Warren replaces, also have the kinds NnfStorage and NnfAccess. The engine derives their
//! content from DirectiveBreakdown, Servers and Computes, and for Lustre from the NnfLustreMGT whose `claimList` names
//! the Servers. Volumes are named after the uid of the Servers. The Servers of an NnfSystemStorage stands for the
//! NnfStorage, NnfAccess and Computes that those controllers make for it. A Servers is owned by its Workflow, not by its
//! DirectiveBreakdown, so deleting a breakdown deletes no storage.

pub mod admit;
pub mod change;
pub mod claims;
mod engine;
pub mod execute;
pub mod external_mgt;
pub mod limits;
pub mod metrics;
pub mod names;
pub mod notes;
pub mod objects;
pub mod plan;
pub mod profile;
pub mod progress;
pub mod rabbit;
pub mod rehearsal;
pub mod report;
mod requests;
pub mod shipped;
pub mod world;

pub use admit::{Rules, admit, complete};
pub use engine::{Channels, run};
pub use objects::site::{Containers, IndexNames, Settings};
pub use requests::{EngineHandle, EngineRequests};

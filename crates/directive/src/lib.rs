//! The storage requests of jobs and workload managers: `#DW` directives and their rules, capacities, the placement of
//! allocations, host lists and job ids. The crate uses no Kubernetes, no I/O and no clock; all functions are pure.
//!
//! A rabbit is a node with drives; a compute is a node that runs jobs. Each rabbit serves several computes. The API
//! object DirectiveBreakdown says which storage a directive needs. In the API object Servers the workload manager
//! writes which rabbits provide that storage. `docs/develop/words.md` explains the words that all crates use.
//!
//! # Path of data
//! ```text
//! lines ─ Presets::expand ─► lines
//! line ─ Directive::from_str ─► Directive ─ Ruleset::check ─► Vec<Directive> ─ Ruleset::drivers ─► Vec<Driver>
//!                                             │
//!                                             └─ Command::try_from ─► Command ─ check::workflow(&Known) ─► admitted or Problems
//! Command + StorageProfile ─ breakdown::allocation_sets ─► Vec<AllocationSet> ─ placement::place ─► Vec<PlacedSet>
//! ```
//!
//! # Guarantees
//! * A problem names the directive by index and text, the argument, its value and what to write instead. All problems
//!   of a workflow are reported: in the order of the directives, and for each directive in the order of its
//!   arguments.
//! * Sizes are integers: no capacity, factor or padding is computed in floating point, and a size beyond the 2^63 - 1
//!   bytes that a Kubernetes field holds is refused.
//! * No input panics.
//!
//! # Sources
//! The directives, their rules and the shapes of breakdowns follow the Go controllers that Warren replaces (DWS
//! v1alpha7, NNF v1alpha11). Placement and job ids follow Flux (flux-coral2 0.36, RFC 19); host lists and id sets follow
//! Flux's RFC 29 and RFC 22.

pub mod breakdown;
pub mod capacity;
pub mod check;
mod command;
mod directive;
pub mod hostlist;
pub mod idset;
pub mod job_id;
pub mod location;
pub mod placement;
mod preset;
mod problem;
pub mod profile;
mod rules;
mod script;

pub use command::{
    Command, CommandFault, Container, Copy, CreatePersistent, DestroyPersistent, FileSystem, Jobdw,
    Persistentdw, StorageArgument, Variable,
};
pub use directive::{Argument, Directive, SyntaxError, SyntaxFault, split};
pub use preset::{PresetError, PresetFault, Presets};
pub use problem::{Fault, Problem, Problems};
pub use rules::{Driver, Rule, RuleDef, RuleFault, Ruleset, SHIPPED_NAME, shipped};
pub use script::{ParseScriptError, Script, Unread, read_script};

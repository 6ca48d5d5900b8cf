//! The files from which Flux knows rabbits: the rabbit mapping, and the resource graph of the scheduler Fluxion. The crate
//! builds both, looks up rabbits and computes, and says in words how a site's file differs from the cluster. All functions
//! are pure.
//!
//! # Path of data
//! ```text
//! SystemConfiguration, Storages, Servers ─ Built::new ─► Mapping ─┬─ json::text ─► file ─ Mapping::parse ─► Mapping
//!                                                                 ├─ lookup::hosts ─► host list
//! R of the Flux instance ─ Resources::parse ─► Resources ─────────┴─ graph::build ─► Graph
//! Mapping of the file + Mapping of the cluster ─ mapping::differences ─► sentences; the same for graphs
//! ```
//!
//! # Guarantees
//! * Outputs are equal to those of flux-coral2 0.36's `flux rabbitmapping`, `flux dws2jgf` and `flux getrabbit` for equal
//!   input: `tests/golden.rs` compares them with recordings, and names the inputs that this crate treats otherwise.
//! * Two equal inputs give the same bytes. Rabbits and computes are sorted by name.
//! * No input panics.
//!
//! # Sources
//! flux-coral2 0.36 (the commands), RFC 20 (R), RFC 22 (id sets), RFC 29 (host lists), flux-sched (the graph).

pub mod graph;
pub mod json;
pub mod lookup;
pub mod mapping;
pub mod resources;

pub use graph::Graph;
pub use mapping::{Built, Mapping};
pub use resources::Resources;

//! The NnfNode, which shows the rabbit itself.

mod events;
mod facts;
pub mod reconcile;
pub mod report;

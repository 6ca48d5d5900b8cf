//! Reconciles the NnfNode, which reports the state of the rabbit.

mod events;
mod facts;
pub mod reconcile;
pub mod report;

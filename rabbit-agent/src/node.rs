//! The rabbit itself: its NnfNode.

mod events;
mod facts;
pub mod reconcile;
pub mod report;

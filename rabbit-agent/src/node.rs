//! The rabbit itself: its NnfNode.

mod facts;
mod news;
pub mod reconcile;
pub mod report;

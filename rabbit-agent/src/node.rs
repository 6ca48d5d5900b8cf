//! The rabbit itself: its NnfNode.

pub mod reconcile;
pub mod report;

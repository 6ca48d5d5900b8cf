//! ClientMount on a rabbit: all of its allocations side by side, as a tree.

pub mod computes;
pub mod reconcile;
pub mod servers;
pub mod start;

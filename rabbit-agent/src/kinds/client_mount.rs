//! Reconciles a rabbit's ClientMount, which mounts all allocations of a job side by side, in one directory (the index
//! tree).

pub mod computes;
pub mod prepare;
pub mod reconcile;
pub mod servers;
pub mod start;

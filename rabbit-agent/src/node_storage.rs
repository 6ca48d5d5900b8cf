//! NnfNodeStorage: file systems, and Lustre targets, on those namespaces.

pub mod desired;
pub mod lines;
pub mod progress;
pub mod reconcile;
pub mod report;
pub mod targets;
pub mod unit;

//! NnfNodeStorage: file systems on those namespaces.

pub mod desired;
pub mod reconcile;
pub mod report;

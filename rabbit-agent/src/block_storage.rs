//! NnfNodeBlockStorage: namespaces on the drives, and who reaches them.

pub mod desired;
pub mod reconcile;
pub mod report;

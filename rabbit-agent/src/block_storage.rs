//! NnfNodeBlockStorage: namespaces on the drives, and who reaches them.

pub mod desired;
mod news;
pub mod reconcile;
pub mod report;

//! NnfNodeBlockStorage: namespaces on the drives, and who reaches them.

pub mod desired;
mod events;
pub mod reconcile;
pub mod report;

//! NnfNodeBlockStorage: namespaces on the drives, and which hosts reach them.

pub mod desired;
mod events;
pub mod reconcile;
pub mod report;

//! Reconciles NnfNodeBlockStorage: namespaces on the drives, and the hosts that have access to them.

pub mod desired;
mod events;
pub mod reconcile;
pub mod report;
pub mod view;

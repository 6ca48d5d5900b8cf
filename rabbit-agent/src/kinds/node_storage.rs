//! Reconciles NnfNodeStorage: file systems and Lustre targets on the namespaces of a NnfNodeBlockStorage.

pub mod desired;
pub mod lines;
pub mod progress;
pub mod reconcile;
pub mod report;
pub mod targets;
pub mod unit;
pub mod view;

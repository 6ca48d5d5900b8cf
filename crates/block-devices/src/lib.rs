//! The block devices of this node: their numbers, exclusive access to them, what mounts them and what holds them.
//!
//! Every call that may hang runs in a child process or on a thread of its own, with a deadline (crate `process`).

pub mod busy;
pub mod call;
pub mod exclusive;
pub mod holders;
pub mod loop_device;
pub mod mount_table;
mod sysfs;

pub use sysfs::number;

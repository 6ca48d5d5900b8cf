//! Lustre: creates targets one kind after the other, gets a file system name from a management target, and mounts the
//! same file system on every client.
//!
//! # Order
//! Setup creates the management target (MGT), the metadata targets, all object targets but the first, and last the
//! first object target: the rabbit of the first object target runs the profile's commands on the whole file system.
//! Then the rabbit of the MGT runs the profile's commands on the MGT, and the owner is changed to the user. Teardown
//! removes the mounts, the first object target, the other object targets, the metadata targets, the file system name,
//! the file system's entry in the consumers of a persistent MGT, and the file system's own MGT.
//!
//! # Guarantees
//! * The holder of a file system name is a Servers, with its uid. Neither the name nor the MGT's address changes
//!   while the file system exists: each plan reads both from existing targets, or from other objects before there are
//!   targets.
//! * During Setup, a target that vanishes is not created again once a target of a later stage exists: the file system
//!   already uses the vanished target, and a new target would be empty. After Setup no target is created again.

mod fs_name;
pub mod mgt;
pub mod mounts;
pub mod owner;
pub mod place;
mod pool;
pub mod setup;
pub mod targets;
pub mod teardown;

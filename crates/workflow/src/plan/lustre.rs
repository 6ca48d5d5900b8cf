//! Lustre: creates targets one kind after the other, gets a file system name from a management target, and mounts the
//! same file system on every client.
//!
//! # Order
//! Setup: the management target (MGT), metadata targets, object targets but the first, and the first object target
//! last, because its rabbit runs the profile's commands on the whole file system. Then the profile's commands on the
//! MGT, then the change of owner to the user. Teardown: mounts, the first object target, the other object targets,
//! metadata targets, the file system name, the use of a persistent MGT, and the file system's own MGT.
//!
//! # Guarantees
//! * The holder of a file system name is a Servers with its uid. Each plan reads the name and the MGT's address from
//!   the objects, first from targets that were made with them: neither changes while the file system exists.
//! * A target that is gone while a later one exists is not created again.

mod fs_name;
pub mod mgt;
pub mod mounts;
pub mod owner;
pub mod place;
mod pool;
pub mod setup;
pub mod targets;
pub mod teardown;

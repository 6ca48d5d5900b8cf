//! Lustre: targets one kind after the other, a name from a management target, and the same mount on every client.
//!
//! # Order
//! Up: the management target (MGT), metadata targets, object targets but the first, and that one last, because its rabbit runs
//! the site's commands on the whole file system. Then the site's commands on the MGT, then the file system goes to its user.
//! Down: mounts, the first object target, the others, metadata, the claim on the name, the hold on a persistent MGT, the MGT.
//!
//! # Guarantees
//! * A claim names the Servers with its uid. Its name and the MGT's address are read from the objects each time, and from the
//!   targets that were made with them first: neither changes while the file system lives.
//! * A target that is gone while a later one exists is not made again.

mod fs_name;
pub mod mgt;
pub mod mounts;
pub mod owner;
pub mod place;
mod pool;
pub mod setup;
pub mod targets;
pub mod teardown;

//! Job packages of workflows' containers on one node. A job package is a file that is complete, checked and in place
//! before a container starts. An object, here, is a NodeContainers: it lists the job packages that a run needs on the
//! node.
//!
//! # Flow
//! ```text
//! job packages of an object ┐
//!                           ├─ plan (pure) ─► Vec<Step> ─► JobPackages: marks of use, and background fetches
//! disk, running fetches     ┘
//! both inputs ─ report (pure) ─► in place, awaited, or impossible
//!
//! server or file ─ Download ─► size, SHA-256 ─► fsync ─ unpack ─► syncfs ─ rename ─► fsync of the directory
//! ```
//!
//! # Guarantees
//! * A name in `ready` belongs to a job package that is complete, checked and on disk: the rename to this name is the
//!   last step of a fetch.
//! * A job package is fetched once, however many objects use it. It stays as long as any object uses it, and is removed
//!   with its last user.
//! * No entry of an archive is unpacked before the whole archive was checked. An archive can create only files,
//!   directories and links, and only beneath its own directory: no path or link leads outside, and there are no device
//!   nodes.
//! * A file is read from a mounted file system only if every user may read it: so a profile gives no access to files
//!   that only root may read.
//!
//! # Order
//! * The mark that an object uses a job package is on disk before a fetch begins, and is removed after the job package.
//!   No container starts before all of its job packages are in `ready`.
//!
//! # Assumptions
//! Only one process of a node uses the directory, and the directory belongs to root.
//!
//! # Caveats
//! A job package that one object uses packed and another unpacked is fetched twice. If an object is deleted without a
//! call of [`JobPackages::release`], its mark stays, and so does the job package.

mod download;
mod error;
mod fetch;
mod file;
mod packages;
pub mod plan;
mod server;
mod store;
mod unpack;

pub use error::FetchError;
pub use packages::JobPackages;
pub use plan::Progress;
pub use store::{StoreError, content};

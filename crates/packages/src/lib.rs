//! Job packages of workflows' containers on one node: files that are
//! complete, checked and in place before a container starts.
//!
//! # Flow
//! ```text
//! job packages of an object ┐
//!                           ├─ plan (pure) ─► Vec<Step> ─► JobPackages: marks of use, and background fetches
//! disk, running fetches     ┘
//! the same ─ report (pure) ─► in place, awaited, or impossible
//!
//! server or file ─ Download ─► size, SHA-256 ─► fsync ─ unpack ─► syncfs ─ rename ─► fsync of the directory
//! ```
//!
//! # Guarantees
//! * A name in `ready` belongs to a complete, checked job package that is on disk: one rename gives it the name, after
//!   all else.
//! * A job package is fetched once, however many objects use it. It stays while an object uses it, and is removed with
//!   the last.
//! * Nothing is unpacked before the whole archive was checked. An archive makes files, directories and links beneath
//!   its own directory, and nothing else: no path or link leads outside, and there are no devices.
//! * A file of a file system is read only if everybody may read it: a profile
//!   gives no access to files that only root may read.
//!
//! # Order
//! * The mark of use is on disk before a fetch begins, and is removed after the package. No container starts before all
//!   of its packages have their names in `ready`.
//!
//! # Assumptions
//! One process of a node uses the directory, which belongs to root.
//!
//! # Caveats
//! A job package that is used both plain and unpacked is fetched twice. An object that is deleted without
//! [`JobPackages::release`] leaves its mark, and with it the job package.

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

//! Packages of workflows' containers on one node: files that are there once, complete and checked, before a container starts.
//!
//! # Flow
//! ```text
//! packages of an object ┐
//!                       ├─ plan (pure) ─► Vec<Step> ─► Packages: marks of use, and fetching in the background
//! disk, what is fetched ┘
//! the same ─ report (pure) ─► in place, awaited, or not to be had
//!
//! server or file ─ Download ─► size, SHA-256 ─► fsync ─ unpack ─► syncfs ─ rename ─► fsync of the directory
//! ```
//!
//! # Guarantees
//! * What has its name in `ready` is complete, was checked and is on disk: it gets that name by one rename, after everything else.
//! * A package is fetched once, whoever uses it. It stays while an object uses it, and goes with the last.
//! * Nothing is unpacked before the whole archive was checked. An archive makes files, directories and links beneath its own
//!   directory, and nothing else: no path or link leads outside, and there are no devices.
//! * A file of a file system is read only when everybody may read it: whoever names it gets nothing that root alone may read.
//!
//! # Order
//! * The mark of use is on disk before a fetch begins, and is removed after the package. No container starts before all
//!   of its packages have their names in `ready`.
//!
//! # Assumptions
//! One process of a node uses the directory, which is root's own.
//!
//! # Caveats
//! A package that is used plain and unpacked is fetched twice. An object that goes without [`Packages::release`] leaves its mark,
//! and the package with it.

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
pub use packages::Packages;
pub use plan::Progress;
pub use store::{StoreError, content};

//! The parts that all kinds share: the main loop, the cache of objects, and the input and result of a pass.

pub mod agent;
pub mod cache;
pub(crate) mod equipment;
pub mod failure;
pub(crate) mod node_host;
pub mod pass;
pub mod probes;
pub mod run;
pub mod status;
pub mod watch;

pub use cache::{Cache, Cached, Key, Wake};
pub use pass::{Context, Pass};

//! What the API says of a job on one node, for whoever waits for that job's mounts.
//!
//! ```text
//! API ─ watch ─► Jobs ─ state ─► whoever waits on a node
//! API ─ look ──►   (before anything reports that a job does not exist, or has no mounts here)
//! ```
//! Whether the sites' controllers write these objects or an engine of ours makes no difference.
//!
//! # Guarantees
//! * No answer says that a job does not exist, or that a node is none of its computes, before a list that was requested after
//!   the question: a watch that is behind must not let a job start without its storage.
//! * What the API does not answer is said to be uncertain.
//!
//! # Assumptions
//! A workload manager creates the Workflow, and names the Computes before it asks for PreRun, before it calls a prolog.

mod known;
mod look;
mod name;
mod questions;
mod watch;
mod workflow;

pub use known::Jobs;
pub use look::look;
pub use name::{Identity, shown};
pub use questions::Questions;
pub use watch::{computes, workflows};
pub use workflow::{Computes, Workflow, has_reached, missing};

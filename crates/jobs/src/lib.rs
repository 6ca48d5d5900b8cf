//! Answers questions about a job on one node, for the node's agent and scripts that wait for the job's mounts.
//!
//! ```text
//! API ─ watch ─► Jobs ─ state ─► node that waits for a job
//! API ─ look ──►   (before an answer that a job does not exist, or has no mounts on this node)
//! ```
//! It makes no difference whether the sites' controllers or Warren's engine write these objects.
//!
//! # Guarantees
//! * An answer that a job does not exist, or that a node is not one of its computes, is given only after a list that was requested
//!   after the question: a watch that is behind must not let a job start without its storage.
//! * While the API does not answer, the answer is Uncertain.
//!
//! # Assumptions
//! Before a workload manager calls a prolog, it creates the Workflow, fills its Computes, and requests PreRun, in this order.

mod known;
mod look;
mod name;
mod questions;
mod watch;
mod workflow;

pub use known::Jobs;
pub use look::look;
pub use name::{Identity, describe};
pub use questions::Questions;
pub use watch::{computes, workflows};
pub use workflow::{Computes, Workflow, directives_without_mount, has_reached};

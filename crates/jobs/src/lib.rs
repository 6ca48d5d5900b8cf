//! Answers questions about a job on one node. The node's agent asks these questions, and so do scripts that wait
//! for the job's mounts.
//!
//! ```text
//! API ─ watch ─► Jobs ─ state ─► node that waits for a job
//! API ─ list ──►   (before an answer that a job does not exist, or has no mounts on this node)
//! ```
//! The API object Workflow has a job's storage requests and the state that the job has reached. The API object Computes
//! lists the job's compute nodes. Both may be written by the sites' controllers or by Warren's engine: the answers are
//! the same. `docs/develop/words.md` explains the words that all crates use.
//!
//! # Guarantees
//! * An answer that a job does not exist, or that a node is not one of its computes, is given only after a list that
//!   was requested after the question: a watch that is behind must not let a job start without its storage.
//! * While the API does not answer, a question about a job gets the answer Uncertain.
//!
//! # Assumptions
//! Before a workload manager calls a prolog, it creates the job's Workflow, fills the Computes of the Workflow, and
//! requests PreRun, in this order.

mod known;
mod name;
mod questions;
mod requests;
mod watch;
mod workflow;

pub use known::Jobs;
pub use name::{Identity, describe};
pub use questions::Questions;
pub use requests::send_requests;
pub use watch::{computes, workflows};
pub use workflow::{Computes, Workflow, directives_without_mount, has_reached};

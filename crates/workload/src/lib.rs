//! Handles a job's Workflow as a workload manager does, for the verbs of `warren` and the gRPC service `Workloads`. A
//! Workflow is the API object with a job's storage requests and with the state that the job has reached.
//!
//! Requests states, waits for them by watching, and names the reasons why a Workflow waits. All reasons are read
//! from the API's objects. `docs/develop/words.md` explains the words that all crates use.

mod flow;
mod gather;
pub mod lease;
mod progress;
mod refused;
pub mod waits;

pub use flow::{Flow, FlowEvent, Unreached, job};
pub use gather::{Member, Objects, gather, kinds, user_kinds};
pub use progress::{Progress, computes_of, is_ending, progress};
pub use refused::Refused;

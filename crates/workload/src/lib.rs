//! One job's Workflow as its workload manager sees it, whichever that is: the verbs of `warren` and the service `Workloads`.
//!
//! It asks for states, waits for them by watching, and tells what a Workflow waits for. The objects are all that it goes by.

mod flow;
mod gather;
pub mod lease;
mod progress;
mod refused;
pub mod waits;

pub use flow::{Flow, Seen, Unreached, job};
pub use gather::{Member, Objects, gather, kinds};
pub use progress::{Progress, computes_of, is_ending, progress};
pub use refused::Refused;

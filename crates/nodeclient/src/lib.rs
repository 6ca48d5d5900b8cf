//! The client of a node's agent: the verbs that scripts use.
//!
//! `clientmount-agent mount …` and `warren node mount …` are the same code. A verb calls the agent over the agent's
//! unix socket, prints a line for each mount, and exits with a status that scripts may rely on.

mod env_file;
mod result;
mod verb;

pub use verb::{OnTimeout, SOCKET, Verb, seconds_or_units};

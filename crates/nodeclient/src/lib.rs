//! The client of a node's agent: the verbs that scripts use, their exit statuses, and their output.
//!
//! `clientmount-agent mount …` and `warren node mount …` are the same code. A verb calls the agent over the agent's
//! unix socket, prints a line for each mount, and exits with a status that scripts may rely on.

mod connect;
mod env_file;
mod exit;
mod failure;
mod output;
mod process;
mod progress;
mod result;
mod verb;

pub use connect::{channel_over_unix, probe};
pub use exit::{EXIT_STATUS_HELP, Exit};
pub use failure::Failure;
pub use output::Output;
pub use process::{run_to_end, run_to_exit};
pub use progress::WaitProgress;
pub use verb::{OnTimeout, SOCKET, Verb, seconds_or_units};

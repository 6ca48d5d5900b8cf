//! The programs with verbs share this crate: help, output, exit statuses, failures, and connections to the daemons
//! of this host.

mod connect;
mod exit;
mod failure;
mod help;
mod output;
mod plans;
mod process;
mod progress;

pub use connect::{channel_over_unix, probe};
pub use exit::{EXIT_STATUS_HELP, Exit};
pub use failure::Failure;
pub use help::{help_on_a_screen, short_help};
pub use output::Output;
pub use plans::{exit_of_plans, plan_json};
pub use process::{run_to_end, run_to_exit};
pub use progress::WaitProgress;

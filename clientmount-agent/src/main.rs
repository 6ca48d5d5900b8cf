//! Starts the agent of a compute node.

use std::process::ExitCode;

use clientmount_agent::{config::Args, run::run};

fn main() -> ExitCode {
    match Args::read(std::env::args_os()) {
        Ok(args) => daemon::run(&args.logs(), args.check(), run),
        Err(error) => error.exit(),
    }
}

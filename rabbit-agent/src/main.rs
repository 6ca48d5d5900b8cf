//! Starts the agent of a rabbit.

use std::process::ExitCode;

use rabbit_agent::{config::Args, run};

fn main() -> ExitCode {
    let args = Args::read();
    daemon::run(&args.logs(), args.check(), run)
}

//! Starts the agent of a rabbit.

use std::process::ExitCode;

use daemon::Threads;
use rabbit_agent::{config::Args, run};

fn main() -> ExitCode {
    let args = Args::read();
    daemon::run(&args.logs(), Threads::One, args.check(), run)
}

//! Starts the agent of a rabbit.

use std::process::ExitCode;

use clap::Parser;
use rabbit_agent::{config::Args, run};

fn main() -> ExitCode {
    let args = Args::parse();
    daemon::run(&args.logs.clone(), args.check(), run)
}

//! Starts the agent of a compute node.

use std::process::ExitCode;

use clap::Parser;
use clientmount_agent::{config::Args, run::run};

fn main() -> ExitCode {
    let args = Args::parse();
    daemon::run(&args.logs.clone(), args.check(), run)
}

//! Starts the coordinator.

use std::process::ExitCode;

use clap::Parser;
use coordinator::config::{CommandLine, Config};
use coordinator::run;

fn main() -> ExitCode {
    let line = CommandLine::parse();
    daemon::run(&line.logs.clone(), line.threads(), Config::try_from(line), run)
}

//! The command `warren`, for operators and prolog scripts.
//!
//! One file per verb under `verbs/`. A verb talks to the API, the coordinator or an agent through `client`, prints
//! through `cli::Output`, and ends with a `cli::Exit` that scripts may rely on.

mod args;
mod ca;
mod cabling;
mod client;
mod failure;
mod kinds;
mod manifest;
mod stored;
mod verbs;
mod workflow;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use cli::{Output, run_to_end, run_to_exit};

use args::CommandLine;

/// Returns the command line, for manual pages and completions.
#[must_use]
pub fn command() -> clap::Command {
    CommandLine::command()
}

#[must_use]
pub fn main() -> ExitCode {
    let line = CommandLine::try_parse().unwrap_or_else(|error| args::exit_with_usage(&error));
    let output = Output::new(line.is_json()).verbose(line.global.verbose);
    if line.verb.handles_signals() {
        return run_to_end(output, move || verbs::run(line, output));
    }
    run_to_exit(output, move || verbs::run(line, output))
}

//! The operators' and prolog scripts' command.
//!
//! One file per verb under `verbs/`. A verb talks to the API, the coordinator or an agent through `client`, prints
//! through `output`, and ends with an `exit` status that scripts may rely on.

mod args;
mod client;
mod exit;
mod failure;
mod kinds;
mod manifest;
mod output;
mod verbs;

use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::Builder;

use args::CommandLine;
use exit::Exit;
use failure::Failure;
use output::Output;

fn main() -> ExitCode {
    let line = CommandLine::parse();
    let output = Output::new(line.global.json);
    let result = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(interruptible(line, output)),
        Err(error) => Err(Failure::new(Exit::Failed, "start").because(&error)),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output.failure(&failure);
            failure.exit.into()
        }
    }
}

async fn interruptible(line: CommandLine, output: Output) -> Result<Exit, Failure> {
    tokio::select! {
        result = verbs::run(line, output) => result,
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Cancelled, "interrupted")),
    }
}

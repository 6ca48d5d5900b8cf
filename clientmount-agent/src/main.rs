//! Starts the agent of a compute node, or obeys a word of its administrator.

use std::{ffi::OsString, process::ExitCode};

use clientmount_agent::{
    config::Args,
    run::run,
    words::{Word, misunderstood},
};
use daemon::Threads;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match Word::read(&arguments) {
        Some(Ok(word)) => word.obey(&arguments[0]),
        Some(Err(error)) => misunderstood(&error),
        None => match Args::read(arguments) {
            Ok(args) => daemon::run(&args.logs(), Threads::One, args.check(), run),
            Err(error) => error.exit(),
        },
    }
}

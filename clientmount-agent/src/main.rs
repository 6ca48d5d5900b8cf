//! Starts the agent of a compute node, or runs a subcommand for its administrator.

use std::{ffi::OsString, process::ExitCode};

use cli::{Output, run_to_exit};
use clientmount_agent::{
    config::Args,
    run::run,
    subcommand::{Subcommand, reject},
};
use daemon::Threads;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match Subcommand::read(&arguments) {
        Some(Ok(subcommand)) => subcommand.run(&arguments[0]),
        Some(Err(error)) => reject(&error),
        None => match Args::read(arguments) {
            Ok(Args { verb: Some(verb), listen, .. }) => {
                let output = Output::new(verb.is_json());
                run_to_exit(output, move || async move { verb.run(&listen, output).await })
            }
            Ok(args) => daemon::run(&args.logs(), Threads::One, args.check(), run),
            Err(error) => error.exit(),
        },
    }
}

//! Starts the agent of a rabbit.

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use clientmount_agent::error::chain;
use rabbit_agent::{End, config::Args, run};

/// Passes wait on these while their own threads work on the node.
const BLOCKING_THREADS: usize = 64;

fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(error) = daemon::start_logging(args.log_level) {
        return failed(&error);
    }
    let config = match args.check() {
        Ok(config) => config,
        Err(error) => {
            log::error!("{}", chain(&error));
            return ExitCode::from(2);
        }
    };
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = match builder.enable_all().max_blocking_threads(BLOCKING_THREADS).build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let end = runtime.block_on(run(config));
    // A step stuck in the kernel must not keep the process.
    runtime.shutdown_timeout(Duration::ZERO);
    match end {
        Ok(End::Stopped) => ExitCode::SUCCESS,
        Ok(End::Refused(why)) => {
            log::error!(
                "the coordinator wants another agent for this rabbit: {why}: stop that one before starting this one again"
            );
            ExitCode::from(3)
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    log::error!("{}", chain(error));
    ExitCode::FAILURE
}

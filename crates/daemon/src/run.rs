//! Runs a daemon, from its command line to its exit code.

use std::{error::Error, num::NonZeroUsize, process::ExitCode, time::Duration};

use clap::{Args, error::ErrorKind};
use log::LevelFilter;
use tokio::runtime::Builder;

use crate::{chain, start_logging, vital};

/// Number of threads that may block in the kernel at the same time.
const BLOCKING_THREADS: usize = 64;

/// Flags of logging, which every daemon has.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// Lowest level of logged messages: off, error, warn, info, debug or trace
    #[arg(long, env = "WARREN_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub log_level: LevelFilter,
}

/// The reason why a daemon stopped without a failure.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// A signal stopped the daemon: exit code 0.
    Stopped,
    /// The coordinator refuses this agent permanently; the text has the reason and the remedy. Exit code 3: systemd
    /// does not start the agent again.
    Refused(String),
}

/// Number of threads for a daemon's tasks, without the threads for blocking work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// The main thread only, which suffices for a node's daemon.
    One,
    /// The given number of threads.
    Many(NonZeroUsize),
}

impl Threads {
    fn builder(self) -> Builder {
        match self {
            Self::One => Builder::new_current_thread(),
            Self::Many(threads) => {
                let mut builder = Builder::new_multi_thread();
                builder.worker_threads(threads.get());
                builder
            }
        }
    }
}

/// Runs a daemon: checks its configuration, starts logging, and runs `work` until it ends.
///
/// Exit codes: 0 stopped by a signal, 1 failed, 2 invalid configuration, 3 refused by the coordinator.
pub fn run<C, I, E, F>(
    logs: &LogArgs,
    threads: Threads,
    check: Result<C, I>,
    work: impl FnOnce(C) -> F,
) -> ExitCode
where
    I: Error,
    E: Into<Box<dyn Error>>,
    F: Future<Output = Result<End, E>>,
{
    let config = match check {
        Ok(config) => config,
        Err(error) => return print_error(&error, 2),
    };
    if let Err(error) = start_logging(logs.log_level) {
        return print_error(&error, 1);
    }
    let mut builder = threads.builder();
    let runtime = match builder.enable_all().max_blocking_threads(BLOCKING_THREADS).build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let end = runtime.block_on(vital("the daemon's main task", work(config)));
    // Does not wait for blocking threads: the process must end even if a thread hangs in the kernel.
    runtime.shutdown_timeout(Duration::ZERO);
    match end.map_err(Into::into) {
        Ok(End::Stopped) => ExitCode::SUCCESS,
        Ok(End::Refused(why)) => {
            log::error!(
                "the coordinator refuses this agent; it exits with code 3, so that systemd does not start it again: {why}"
            );
            ExitCode::from(3)
        }
        Err(error) => failed(&*error),
    }
}

/// Prints an error in clap's format, before logging has started.
fn print_error(error: &dyn Error, code: u8) -> ExitCode {
    let error = clap::Error::raw(ErrorKind::ValueValidation, format!("{}\n", chain(error)));
    // If printing fails, the exit code alone reports the error.
    drop(error.print());
    ExitCode::from(code)
}

fn failed(error: &dyn Error) -> ExitCode {
    log::error!("{}", chain(error));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    const QUIET: LogArgs = LogArgs { log_level: LevelFilter::Off };

    #[test]
    fn with_an_invalid_configuration_the_daemon_exits_with_code_2_and_starts_no_work() {
        let wrong: Result<(), _> = Err(io::Error::other("--node: no"));
        let code = run(&QUIET, Threads::One, wrong, |()| async {
            panic!("a daemon with an invalid configuration must not start");
            #[expect(unreachable_code, reason = "the result's type")]
            Ok::<_, io::Error>(End::Stopped)
        });
        assert_eq!(code, ExitCode::from(2));
    }

    #[test]
    fn an_agent_that_the_coordinator_refuses_exits_with_code_3() {
        let refused = |()| async { Ok::<_, io::Error>(End::Refused("a newer one".into())) };
        assert_eq!(run(&QUIET, Threads::One, Ok::<_, io::Error>(()), refused), ExitCode::from(3));
    }

    #[test]
    fn the_runtime_has_as_many_threads_as_configured() {
        let workers = |threads: Threads| threads.builder().build().unwrap().metrics().num_workers();
        let three = NonZeroUsize::new(3).unwrap();
        assert_eq!((workers(Threads::One), workers(Threads::Many(three))), (1, 3));
    }
}

//! The program `coordinator`: serves, or restores a store.

use std::process::ExitCode;

use clap::Parser;
use coordinator::config::{CommandLine, Config, Task};
use coordinator::{restore, run};

fn main() -> ExitCode {
    let line = CommandLine::parse();
    let (logs, threads) = (line.logs.clone(), line.threads());
    match line.task.clone() {
        None => daemon::run(&logs, threads, Config::try_from(line), run),
        Some(Task::Restore { file }) => {
            let from = Ok::<_, std::convert::Infallible>(file);
            daemon::run(&logs, threads, from, |file| async move { restore(line.data_dir(), &file) })
        }
    }
}

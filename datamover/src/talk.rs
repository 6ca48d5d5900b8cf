//! Reads the order and its changes from standard input, and writes reports to standard output.

use std::{
    io::{BufRead, StdinLock, StdoutLock, Write, stdin, stdout},
    process::exit,
    sync::Weak,
    thread,
};

use movement::{
    order::{Change, Order},
    report::{Outcome, Report},
};
use thiserror::Error;

use crate::mover::Mover;

/// Exit status of a run whose agent has ended.
const ABANDONED: i32 = 3;

/// Why the order cannot be read.
#[derive(Debug, Error)]
pub(crate) enum OrderError {
    #[error("read the order from standard input")]
    Read(#[from] std::io::Error),
    #[error(
        "this version of datamover cannot read the order: install the same version of the agent and of datamover"
    )]
    Parse(#[from] serde_json::Error),
}

pub(crate) fn read_order() -> Result<Order, OrderError> {
    let mut line = String::new();
    stdin().lock().read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Starts a thread that reads the changes of the order. When the agent has ended, the process ends at once, and leaves
/// its temporary files to the next run.
pub(crate) fn follow_changes(mover: Weak<Mover>) -> std::io::Result<()> {
    let follow = move || {
        for line in lines(stdin().lock()) {
            let Some(mover) = mover.upgrade() else { return };
            match serde_json::from_str(&line) {
                Ok(Change::Cancel) => mover.stop(Outcome::Cancelled),
                Ok(Change::Rate(rate)) => mover.throttle.set(rate),
                Err(_) => {}
            }
        }
        exit(ABANDONED);
    };
    thread::Builder::new().name("orders".to_owned()).spawn(follow).map(drop)
}

fn lines(input: StdinLock<'_>) -> impl Iterator<Item = String> {
    input.lines().map_while(Result::ok)
}

/// Writes a report for the agent. Ends the process when the agent has closed the pipe.
pub(crate) fn report(report: &Report) {
    let mut output: StdoutLock<'_> = stdout().lock();
    let line = serde_json::to_string(report).unwrap_or_default();
    if writeln!(output, "{line}").and_then(|()| output.flush()).is_err() {
        exit(ABANDONED);
    }
}

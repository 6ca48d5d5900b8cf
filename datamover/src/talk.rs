//! Standard input and output: orders in, reports out.

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

/// Exit status of a run whose agent went away.
const ABANDONED: i32 = 3;

/// The order cannot be read.
#[derive(Debug, Error)]
pub(crate) enum OrderError {
    #[error("read the order from standard input")]
    Read(#[from] std::io::Error),
    #[error(
        "the order is not JSON as this version of datamover has it; agent and datamover must be of one version"
    )]
    Parse(#[from] serde_json::Error),
}

pub(crate) fn order() -> Result<Order, OrderError> {
    let mut line = String::new();
    stdin().lock().read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Follows later lines in a thread. When the agent is gone, the process ends at once, and leaves its temporary files to the next run.
pub(crate) fn follow(mover: Weak<Mover>) -> std::io::Result<()> {
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

/// Reports to the agent. When nobody reads, the process ends.
pub(crate) fn tell(report: &Report) {
    let mut output: StdoutLock<'_> = stdout().lock();
    let line = serde_json::to_string(report).unwrap_or_default();
    if writeln!(output, "{line}").and_then(|()| output.flush()).is_err() {
        exit(ABANDONED);
    }
}

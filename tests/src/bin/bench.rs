//! `make bench`: measures the time that Warren adds to the bare system calls, and the processor time that it takes from
//! a job. Only the bench itself uses the arguments `rank`, `poller` and `look`, for processes that it starts.

use std::{path::Path, process::ExitCode};

use anyhow::Context;
use tests::bench::{self, looks, noise, row::say};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let part = match words.first().map(String::as_str) {
        Some("rank") => noise::rank::run(&words[1..]),
        Some("look") => look(&words[1..]),
        Some("poller") => noise::poller::run(&words[1..]),
        _ => return bench::run(Path::new("/var/tmp/warren-bench"), &words).await,
    };
    match part {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{}: {error:#}", words[0]));
            ExitCode::FAILURE
        }
    }
}

fn look(words: &[String]) -> anyhow::Result<()> {
    let [directory, count] = words else { anyhow::bail!("usage: bench look DIRECTORY COUNT") };
    looks::look(Path::new(directory), count.parse().context("COUNT")?)
}

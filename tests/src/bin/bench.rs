//! `make bench`: what Warren adds to the bare system calls, measured in one run.

use std::{path::Path, process::ExitCode};

use tests::bench;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    bench::run(Path::new("/var/tmp/warren-bench")).await
}

//! Starts [`datamover`].

use std::process::ExitCode;

fn main() -> ExitCode {
    datamover::main()
}

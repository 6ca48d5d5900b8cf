//! Starts podhelper.

use std::process::ExitCode;

fn main() -> ExitCode {
    podhelper::main()
}

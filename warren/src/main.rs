//! The program `warren`, for operators and prolog scripts.

use std::process::ExitCode;

fn main() -> ExitCode {
    warren::main()
}

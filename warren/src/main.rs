//! Starts the operators' and prolog scripts' command.

use std::process::ExitCode;

fn main() -> ExitCode {
    warren::main()
}

//! Starts what runs in the pods of MPI.

use std::process::ExitCode;

fn main() -> ExitCode {
    podhelper::main()
}

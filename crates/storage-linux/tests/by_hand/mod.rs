//! Runs programs on a node without Warren, as an admin would.
#![expect(unreachable_pub, reason = "a module of several test binaries")]

use std::process::{Child, Command, Output, Stdio};

#[expect(clippy::disallowed_methods, reason = "tests prepare the node by hand")]
pub fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// Starts a program with which the test exchanges text.
#[expect(clippy::disallowed_methods, reason = "tests prepare the node by hand")]
pub fn start(program: &str, args: &[&str]) -> Child {
    let (stdin, stdout) = (Stdio::piped(), Stdio::piped());
    Command::new(program)
        .args(args)
        .stdin(stdin)
        .stdout(stdout)
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// Runs a program that must succeed, and returns its stdout.
pub fn must(program: &str, args: &[&str]) -> String {
    let output = run(program, args);
    assert!(
        output.status.success(),
        "{program} {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

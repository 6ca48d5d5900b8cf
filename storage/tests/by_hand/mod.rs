//! What tests do to a node behind Warren's back.
#![expect(unreachable_pub, reason = "a module of several test binaries")]

use std::process::{Child, Command, Output, Stdio};

/// A test that was asked for fails when it cannot run.
#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
pub fn skip(word: &str, why: &str) {
    let required = std::env::var("WARREN_TEST_REQUIRE").unwrap_or_default();
    assert!(
        !required.split([',', ' ']).any(|asked| asked == word),
        "{word} tests cannot run: {why}"
    );
    eprintln!("SKIPPED: {word} tests cannot run: {why}");
}

#[expect(clippy::disallowed_methods, reason = "tests prepare the node by hand")]
pub fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// Starts a program that the test talks to.
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

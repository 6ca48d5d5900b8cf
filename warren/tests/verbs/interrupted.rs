use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::box_of_one::BoxOfOne;

#[expect(
    clippy::disallowed_methods,
    reason = "test harness: the child must be signalled while it runs"
)]
fn spawn(here: &BoxOfOne, arguments: &[&str]) -> std::process::Child {
    Command::new(env!("CARGO_BIN_EXE_warren"))
        .args(arguments)
        .env("WARREN_API", format!("unix://{}", here.path("api.sock").display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn an_interrupted_watch_is_cancelled() {
    let here = BoxOfOne::with_mount();
    let mut child = spawn(&here, &["get", "clientmounts", "-A", "--watch"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("NAMESPACE"));
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
}

#[test]
fn a_watch_prints_changes_as_they_come() {
    let here = BoxOfOne::with_mount();
    let mut child = spawn(&here, &["get", "clientmounts", "-A", "--watch"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().starts_with("NAMESPACE"));
    assert!(lines.next().unwrap().contains("job"));
    here.warren(&["delete", "clientmount", "job", "-n", "compute-1"]).assert().success();
    let line = lines.next().unwrap();
    assert!(line.contains("job") && line.contains("(deleted)"), "{line}");
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
}

#[test]
fn output_that_nobody_reads_is_no_failure() {
    let here = BoxOfOne::start();
    let mut child = spawn(&here, &["completions", "zsh"]);
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(output.status.code(), Some(0));
}

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::backup::answering;
use crate::standalone_coordinator::{DEADLINE, StandaloneCoordinator};

#[expect(
    clippy::disallowed_methods,
    reason = "test harness: the child must be signalled while it runs"
)]
fn spawn(here: &StandaloneCoordinator, arguments: &[&str]) -> std::process::Child {
    Command::new(env!("CARGO_BIN_EXE_warren"))
        .args(arguments)
        .env("WARREN_API", format!("unix://{}", here.path("api.sock").display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn an_interrupted_watch_exits_with_the_status_of_a_cancelled_verb() {
    let here = StandaloneCoordinator::with_mount();
    let mut child = spawn(&here, &["get", "clientmounts", "-A", "--watch"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("NAMESPACE"));
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
}

/// Waits until `answer` returns a value.
#[expect(clippy::disallowed_methods, reason = "no event announces the progress of another process")]
fn until<T>(what: &str, mut answer: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(Instant::now() < end, "{what}: not within {} s", DEADLINE.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns whether the process has handlers for SIGINT and SIGTERM.
fn is_listening(child: &std::process::Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
    [Signal::SIGINT, Signal::SIGTERM].iter().all(|signal| caught & (1 << (*signal as i32 - 1)) != 0)
}

#[test]
fn a_signal_ends_a_verb_that_reads_or_waits() {
    let here = StandaloneCoordinator::with_mount();
    let pipe = here.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let pipe = pipe.display().to_string();
    for arguments in [
        &["apply", "-f", "-"][..],
        &["delete", "-f", "-"],
        &["apply", "-f", &pipe],
        &["wait", "clientmount/job", "-n", "compute-1", "--for", "mounted"],
    ] {
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            let mut child = spawn(&here, arguments);
            until("handlers", || is_listening(&child).then_some(()));
            kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
            let status = until("the end of the process", || child.try_wait().unwrap());
            assert_eq!(status.code(), Some(6), "{arguments:?} {signal}");
        }
    }
}

/// A backup contains Secrets.
#[test]
fn an_interrupted_backup_leaves_no_file() {
    let (here, directory) = (StandaloneCoordinator::start(), tempfile::tempdir().unwrap());
    let socket = directory.path().join("half.sock");
    let half = "HTTP/1.1 200 OK\r\n\r\n{\"objects\":2,\"unread\":[]}\n{}\n";
    answering(&socket, |_| half.to_owned(), true);
    let server = format!("unix://{}", socket.display());
    let file = directory.path().join("backup").display().to_string();
    let files = || std::fs::read_dir(directory.path()).unwrap().count();
    let mut child = spawn(&here, &["--server", &server, "backup", &file]);
    until("a draft of the backup", || (files() > 1).then_some(()));
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
    assert_eq!(files(), 1, "only the socket remains");
}

#[test]
fn a_watch_prints_changes_as_they_come() {
    let here = StandaloneCoordinator::with_mount();
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
fn a_verb_whose_output_is_closed_exits_with_0() {
    let here = StandaloneCoordinator::start();
    let mut child = spawn(&here, &["completions", "zsh"]);
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(output.status.code(), Some(0));
}

use std::fs;

use super::*;

const LONG: Duration = Duration::from_secs(60);

fn output(line: &str) -> String {
    String::from_utf8(Cmd::shell(line).output(LONG).unwrap()).unwrap()
}

fn failure(line: &str) -> (String, String) {
    match Cmd::shell(line).run(LONG) {
        Err(CommandError::Failed { status, stderr, .. }) => (status, stderr),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn commands_return_stdout_or_status_and_stderr() {
    assert_eq!(output("echo one; echo two"), "one\ntwo\n");
    assert_eq!(failure("echo why >&2; exit 3"), ("exit status: 3".into(), "why".into()));
    assert_eq!(failure("kill -9 $$").0, "signal: 9 (SIGKILL)");
    let missing = Cmd::new(["warren-no-such-program"]).run(LONG);
    assert!(matches!(missing, Err(CommandError::Start { .. })), "{missing:?}");
}

/// `Cmd` waits only for the program itself: the program's children may still hold its pipes.
#[test]
fn run_does_not_wait_for_a_grandchild_that_holds_the_pipes() {
    let started: i32 = output("sleep 3600 & echo $!").trim().parse().unwrap();
    nix::sys::signal::kill(Pid::from_raw(started), Signal::SIGKILL)
        .expect("the grandchild still runs");
}

#[test]
fn the_whole_group_is_killed_at_the_deadline() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let line = format!("echo trouble >&2; exec 3> {}; sleep 3600 & wait", fifo.display());
    // This read ends when the last process that inherited descriptor 3 is dead.
    let all_dead = thread::spawn(move || fs::read(fifo).unwrap());
    let result = Cmd::shell(&line).run(Duration::from_secs(5));
    let Err(CommandError::TimedOut { stderr, .. }) = result else { panic!("{result:?}") };
    assert_eq!(stderr, "trouble");
    assert_eq!(all_dead.join().unwrap(), b"");
}

/// Returns the error of a command that outlives its deadline.
fn hang_error(line: &str) -> String {
    match Cmd::shell(line).run(Duration::from_secs(3)) {
        Err(error @ CommandError::TimedOut { .. }) => error.to_string(),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn a_timeout_names_every_process_with_its_place_in_the_kernel() {
    let error = hang_error("sleep 3600 & sleep 3600; true");
    assert!(error.starts_with(
        "sleep 3600 & sleep 3600; true: killed after 3 s; its processes waited: process "
    ));
    assert_eq!(error.matches("(sleep, state S, in ").count(), 2, "{error}");
    assert_eq!(error.matches("(bash, state S, in ").count(), 1, "{error}");
}

#[test]
fn a_stopped_process_is_shown_in_state_t() {
    let error = hang_error("exec bash -c 'kill -STOP $$'");
    assert!(error.contains("(bash, state T"), "{error}");
}

#[test]
fn a_program_that_ignores_sigterm_is_killed() {
    let error = hang_error("trap '' TERM; while :; do sleep 0.1; done");
    assert!(
        error.contains("(bash, state ") && !error.contains("SIGKILL did not end it"),
        "{error}"
    );
}

/// The kernel kills the program when the thread that started it ends, as when the agent ends.
#[test]
fn a_program_does_not_outlive_the_thread_that_started_it() {
    let start = || Cmd::shell("exec sleep 3600").spawn().unwrap();
    let mut child = thread::spawn(start).join().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGKILL as i32));
}

#[test]
fn both_ends_of_long_stderr_are_kept() {
    let (_, stderr) =
        failure("echo begin >&2; yes filler | head -n 100000 >&2; echo end >&2; exit 1");
    assert!(stderr.starts_with("begin\nfiller") && stderr.ends_with("filler\nend"), "{stderr}");
    assert!(stderr.contains("[…]") && stderr.len() < 1100, "{}", stderr.len());
}

/// A caller could not notice a gap in a truncated list. (`Cmd::run` drops stdout, so it does not fail because
/// of a long stdout.)
#[test]
fn output_fails_when_stdout_was_truncated() {
    let print = |bytes: usize| Cmd::shell(&format!("yes | head -c {bytes}"));
    let count = |bytes| print(bytes).output(LONG).map(|bytes| bytes.len());
    let most = STDOUT_KEPT.first;
    assert_eq!(count(most).unwrap(), most);
    let error = count(most + 1).unwrap_err();
    assert!(matches!(error, CommandError::TooMuch { .. }), "{error}");
    print(most + 1).run(LONG).unwrap();
}

#[test]
fn a_command_gets_a_clean_environment() {
    let shown = output("env | cut -d= -f1 | sort; pwd; cat");
    assert_eq!(shown.lines().collect::<Vec<_>>(), ["LC_ALL", "PATH", "PWD", "SHLVL", "_", "/"]);
}

//! What a person at a terminal sees of a suite that cannot run.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Output;

const SKIPS: &str = "GATE_SKIPS";

/// Not a test: the suite that the others watch.
#[test]
#[ignore = "a suite that cannot run, started by the tests of it"]
fn a_suite_that_cannot_run() {
    if std::env::var_os(SKIPS).is_some() {
        assert!(!gate::open("clock", Some("there is no time")));
        assert!(!gate::open("clock", Some("there is no time")));
        assert!(gate::open("root", None));
    }
}

/// As `cargo test` runs it: with what it prints kept back unless it fails.
fn run(required: &str) -> Output {
    #[expect(clippy::disallowed_methods, reason = "a test harness that starts itself")]
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_suite_that_cannot_run", "--ignored"]).env(SKIPS, "1");
    command.env("WARREN_TEST_REQUIRE", required).output().unwrap()
}

#[test]
fn a_skip_is_seen_once_without_being_asked_for() {
    let output = run("root, loop");
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(told, "SKIPPED: tests that need clock: there is no time\n");
}

/// A skip of a whole workload manager would pass there for good.
#[test]
fn continuous_integration_asks_for_the_suites_that_need_other_programs() {
    let script = include_str!("../../../.ci/run");
    let required = script.lines().find_map(|line| line.strip_prefix("required=")).unwrap();
    let required = required.trim_matches('"');
    for suite in ["loop", "mpi", "mpich", "podman", "slurm", "python-kubernetes"] {
        assert!(required.split(' ').any(|word| word == suite), "{suite} is not in {required:?}");
    }
    let output = run(required);
    assert!(output.status.success(), "each is a suite: {output:?}");
}

#[test]
fn what_was_asked_for_fails_and_a_suite_that_there_is_not_does() {
    for (required, why) in [
        ("clock", "suite clock was asked for and cannot run: there is no time"),
        ("root,clock", "was asked for"),
        ("clok", "there is no suite \"clok\""),
    ] {
        let output = run(required);
        assert!(!output.status.success(), "{required}");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(told.contains(why), "{required}: {told}");
    }
}

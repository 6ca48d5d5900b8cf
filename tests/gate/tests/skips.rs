//! A suite that cannot run prints a message on the terminal, and fails if `WARREN_TEST_REQUIRE` names it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Output;

const SKIPS: &str = "GATE_SKIPS";

/// Stands for a suite: the tests below start it. It tests nothing itself.
#[test]
#[ignore = "a suite that cannot run; the other tests start it"]
fn a_suite_that_cannot_run() {
    if std::env::var_os(SKIPS).is_some() {
        assert!(!gate::open("clock", Some("there is no time")));
        assert!(!gate::open("clock", Some("there is no time")));
        assert!(gate::open("root", None));
    }
}

/// Runs the suite as `cargo test` does: libtest hides the output of a suite that passes.
fn run(required: &str) -> Output {
    #[expect(clippy::disallowed_methods, reason = "a test harness that starts itself")]
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_suite_that_cannot_run", "--ignored"]).env(SKIPS, "1");
    command.env("WARREN_TEST_REQUIRE", required).output().unwrap()
}

#[test]
fn a_suite_that_cannot_run_prints_the_reason_once() {
    let output = run("root, loop");
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stderr).unwrap();
    assert_eq!(printed, "SKIPPED: tests that need clock: there is no time\n");
}

/// Without the list in `.ci/run`, continuous integration could skip all tests of a workload manager and still succeed.
#[test]
fn continuous_integration_requires_the_suites_that_need_other_programs() {
    let script = include_str!("../../../.ci/run");
    let required = script.lines().find_map(|line| line.strip_prefix("required=")).unwrap();
    let required = required.trim_matches('"');
    for suite in ["loop", "mpi", "mpich", "podman", "slurm", "python-kubernetes"] {
        assert!(required.split(' ').any(|word| word == suite), "{suite} is not in {required:?}");
    }
    let output = run(required);
    assert!(output.status.success(), "an unknown suite: {output:?}");
}

#[test]
fn a_required_suite_that_cannot_run_fails_and_so_does_an_unknown_one() {
    for (required, why) in [
        (
            "clock",
            "suite clock is required by WARREN_TEST_REQUIRE and cannot run: there is no time",
        ),
        ("root,clock", "is required by"),
        ("clok", "there is no suite \"clok\""),
    ] {
        let output = run(required);
        assert!(!output.status.success(), "{required}");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(printed.contains(why), "{required}: {printed}");
    }
}

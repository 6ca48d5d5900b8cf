use std::{collections::BTreeMap, fs};

use proptest::prelude::*;

use super::*;
use crate::template::SiteCommand;

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
fn success_and_failure_are_told_apart() {
    assert_eq!(output("echo one; echo two"), "one\ntwo\n");
    assert_eq!(failure("echo why >&2; exit 3"), ("exit status: 3".into(), "why".into()));
    assert_eq!(failure("kill -9 $$").0, "signal: 9 (SIGKILL)");
    let missing = Cmd::new(["warren-no-such-program"]).run(LONG);
    assert!(matches!(missing, Err(CommandError::Start { .. })), "{missing:?}");
}

/// Only the program itself is waited for: what it started may hold its pipes.
#[test]
fn a_grandchild_that_keeps_the_pipes_is_not_waited_for() {
    let started: i32 = output("sleep 3600 & echo $!").trim().parse().unwrap();
    nix::sys::signal::kill(Pid::from_raw(started), Signal::SIGKILL).expect("it is still there");
}

#[test]
fn the_whole_group_is_killed_at_the_deadline() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let line = format!("echo trouble >&2; exec 3> {}; sleep 3600 & wait", fifo.display());
    // End of file comes when the last process that inherited descriptor 3 is dead; it must have got there first.
    let all_dead = thread::spawn(move || fs::read(fifo).unwrap());
    let result = Cmd::shell(&line).run(Duration::from_secs(5));
    let Err(CommandError::TimedOut { stderr, .. }) = result else { panic!("{result:?}") };
    assert_eq!(stderr, "trouble");
    assert_eq!(all_dead.join().unwrap(), b"");
}

/// What a command that outlived its deadline is told with; all its processes stand still by then.
fn hangs(line: &str) -> String {
    match Cmd::shell(line).run(Duration::from_secs(3)) {
        Err(error @ CommandError::TimedOut { .. }) => error.to_string(),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn every_process_that_hangs_is_named_with_where_it_stands() {
    let told = hangs("sleep 3600 & sleep 3600; true");
    assert!(
        told.starts_with("sleep 3600 & sleep 3600; true: killed after 3 s; then waited: process ")
    );
    assert_eq!(told.matches("(sleep, state S, in ").count(), 2, "{told}");
    assert_eq!(told.matches("(bash, state S, in ").count(), 1, "{told}");
}

#[test]
fn a_process_that_is_stopped_is_told_from_one_that_waits() {
    let told = hangs("exec bash -c 'kill -STOP $$'");
    assert!(told.contains("(bash, state T"), "{told}");
}

#[test]
fn who_ignores_sigterm_is_killed_all_the_same() {
    let told = hangs("trap '' TERM; while :; do sleep 0.1; done");
    assert!(told.contains("(bash, state ") && !told.contains("SIGKILL did not end it"), "{told}");
}

/// The kernel takes the end of the starting thread for the end of the agent.
#[test]
fn a_program_does_not_outlive_who_started_it() {
    let start = || Cmd::shell("exec sleep 3600").spawn().unwrap();
    let mut child = thread::spawn(start).join().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGKILL as i32));
}

#[test]
fn of_long_stderr_both_ends_are_kept() {
    let (_, stderr) =
        failure("echo begin >&2; yes filler | head -n 100000 >&2; echo end >&2; exit 1");
    assert!(stderr.starts_with("begin\nfiller") && stderr.ends_with("filler\nend"), "{stderr}");
    assert!(stderr.contains("[…]") && stderr.len() < 1100, "{}", stderr.len());
}

/// A list with a gap reads like a whole one. Nobody reads what a site's line prints.
#[test]
fn output_that_is_not_kept_whole_is_a_failure_for_those_who_read_it() {
    let print = |bytes: usize| Cmd::shell(&format!("yes | head -c {bytes}"));
    let count = |bytes| print(bytes).output(LONG).map(|bytes| bytes.len());
    let most = STDOUT_KEPT.first;
    assert_eq!(count(most).unwrap(), most);
    let error = count(most + 1).unwrap_err();
    assert!(matches!(error, CommandError::TooMuch { .. }), "{error}");
    print(most + 1).run(LONG).unwrap();
}

#[test]
fn the_environment_is_ours() {
    let shown = output("env | cut -d= -f1 | sort; pwd; cat");
    assert_eq!(shown.lines().collect::<Vec<_>>(), ["LC_ALL", "PATH", "PWD", "SHLVL", "_", "/"]);
}

/// Values that a user might choose, among them whatever means something to bash.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("1; rm -rf /".to_owned()),
        Just("$(id)".to_owned()),
        Just("`id`".to_owned()),
        Just("' \" \\ $HOME".to_owned()),
        "[ -~]{0,12}",
        r#"[$`"'\\;&|<>(){}* a]{0,10}"#,
    ]
}

fn site(line: &str, value: &str) -> String {
    let variables = BTreeMap::from([("$JOBID".to_owned(), value.to_owned())]);
    SiteCommand::new("hook", line, variables).unwrap().unwrap().expand(&BTreeMap::new())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Real bash hands the value on as one word of the same text, wherever it stands.
    #[test]
    fn a_value_stays_one_word(value in hostile()) {
        for line in ["printf %s: $JOBID", "printf %s: \"$JOBID\"", "printf %s: '$JOBID'", "printf %s: \"\"$JOBID''"] {
            prop_assert_eq!(output(&site(line, &value)), format!("{}:", value), "{}", line);
        }
        let around = output(&site("printf %s: --tag=$JOBID/\"x $JOBID\"'$JOBID'", &value));
        prop_assert_eq!(around, format!("--tag={value}/x {value}{value}:"));
    }

    /// Where bash reads twice, the value is defused.
    #[test]
    fn a_value_runs_nothing_where_the_line_substitutes(value in hostile()) {
        for line in ["echo \"$(echo \"$JOBID\")\"", "echo `echo $JOBID`", "echo $(printf %s '$JOBID')"] {
            let expanded = site(line, &value);
            let defused: String = line.replace("$JOBID", "");
            let added: String = expanded.chars().filter(|char| "$`;&|<>(){}\"'\\*".contains(*char)).collect();
            let own: String = defused.chars().filter(|char| "$`;&|<>(){}\"'\\*".contains(*char)).collect();
            prop_assert_eq!(added.replace("''", ""), own.replace("''", ""), "{}", expanded);
        }
    }
}

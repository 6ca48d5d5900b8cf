//! Compares Warren's scripts with recordings of the scripts that sites run today (flux-coral2's), case by case.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::stage::{RABBIT_JOB, Stage};

const INFO: &str = "flux job info f2AVx5nQsoRy jobspec";
const CONFIG: &str = "flux config get --default=1800 rabbit.prolog_timeout";
const MOUNT: &str = "clientmount-agent mount --job f2AVx5nQsoRy --deadline 1800s";
const STATUS: &str = "clientmount-agent status --job f2AVx5nQsoRy";
const UNMOUNT: &str = "clientmount-agent unmount --job f2AVx5nQsoRy --deadline 300s";

enum Verdict {
    /// The effects on job and node are the same as in the recording.
    Agrees,
    /// The effects on job or node differ from the recording, for this reason.
    Differs(&'static str),
}
use Verdict::{Agrees, Differs};

/// Each row has a case, the verdict, the calls of Warren's script, and the exit status. If the last argument of a call
/// is free text, the row omits it.
const VERDICTS: [(&str, Verdict, &[&str], i32); 10] = [
    ("rabbit job, mounts arrive", Agrees, &[INFO, CONFIG, MOUNT], 0),
    (
        "rabbit job, wait-event times out",
        Agrees,
        &[INFO, CONFIG, MOUNT, "flux job raise -s 0 -t prolog-timeout f2AVx5nQsoRy "],
        0,
    ),
    ("ordinary job", Agrees, &[INFO], 0),
    ("dw is JSON null -> treated as ordinary", Agrees, &[INFO], 0),
    ("dw is empty list -> treated as rabbit job", Agrees, &[INFO, CONFIG, MOUNT], 0),
    (
        "jobspec lookup fails (jq 1.6: -e on empty input exits 0 -> handled as a RABBIT job; jq >=1.7 exits 4 -> ordinary)",
        Agrees,
        &[INFO, STATUS, CONFIG, MOUNT],
        0,
    ),
    ("systemctl fails", Agrees, &[INFO, CONFIG, MOUNT, "flux resource drain --update "], 8),
    (
        "ordinary job, systemctl fails",
        Differs("Warren starts no unit for a job without storage: its node stays in service"),
        &[INFO],
        0,
    ),
    (
        "epilog, getrabbit fails",
        Differs("Warren's epilog does not ask for the list of rabbits: it unmounts in any case"),
        &[INFO, UNMOUNT],
        0,
    ),
    ("epilog, systemctl fails", Agrees, &[INFO, UNMOUNT, "flux resource drain --update "], 8),
];

#[derive(Deserialize)]
struct Recording {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    script: String,
    conditions: BTreeMap<String, String>,
    commands: Vec<String>,
    exit: i32,
}

/// Effect of a script's run on the job and its node.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// True if the script started the site's daemon, or called Warren's agent.
    calls_daemon: bool,
    /// Type of the exception that the script raised on the job.
    exception: Option<String>,
    /// True if the script failed, after which Flux drains the node.
    fails: bool,
}

impl Outcome {
    fn from_run(commands: &[String], exit: i32) -> Self {
        let calls_daemon = |command: &String| {
            command.starts_with("systemctl start") || command.starts_with("clientmount-agent")
        };
        let kind = |command: &String| {
            let words: Vec<&str> =
                command.strip_prefix("flux job raise ")?.split_whitespace().collect();
            let flag = words.iter().position(|word| *word == "-t")?;
            words.get(flag + 1).map(|word| (*word).to_owned())
        };
        Self {
            calls_daemon: commands.iter().any(calls_daemon),
            exception: commands.iter().find_map(kind),
            fails: exit != 0,
        }
    }
}

/// Translates the recorded conditions into the agent's exit status: 3 if mounts are not made in time, 8 if the daemon's
/// unit fails.
fn agent_exit_status(conditions: &BTreeMap<String, String>) -> &'static str {
    if conditions.contains_key("F_SYSTEMCTL") {
        "8"
    } else if conditions.contains_key("F_WAIT") {
        "3"
    } else {
        "0"
    }
}

fn play(case: &Case) -> anyhow::Result<(Vec<String>, i32)> {
    let script = match case.script.as_str() {
        "zstop_nnf_clientmount.sh" => "prolog",
        "start_nnf_clientmount.sh" => "epilog",
        other => anyhow::bail!("{other} is neither their prolog nor their epilog"),
    };
    let mut stage = Stage::new(script)?
        .with_settings("WARREN_UNREACHABLE=0\n")?
        .with("F_AGENT", agent_exit_status(&case.conditions));
    if !case.conditions.contains_key("F_JOBSPEC") {
        stage = stage.with("F_JOBSPEC", RABBIT_JOB);
    }
    for (name, value) in &case.conditions {
        stage = stage.with(name, value);
    }
    let ended = stage.run()?;
    ensure!(ended.stdout.is_empty(), "the script prints {}", ended.stdout);
    Ok((ended.calls, ended.exit.context("no exit status")?))
}

fn judge(case: &Case) -> anyhow::Result<()> {
    let (_, verdict, commands, exit) = VERDICTS
        .iter()
        .find(|(name, ..)| *name == case.name)
        .context("VERDICTS has no verdict for this recorded case")?;
    let (calls, status) = play(case)?;
    ensure!(status == *exit, "the script exits with {status}, not {exit}: {calls:?}");
    let is_expected = calls.len() == commands.len()
        && calls.iter().zip(*commands).all(|(call, expected)| call.starts_with(expected));
    ensure!(is_expected, "the script calls {calls:#?}\nand not {commands:#?}");
    let (theirs, ours) =
        (Outcome::from_run(&case.commands, case.exit), Outcome::from_run(&calls, status));
    match verdict {
        Agrees => ensure!(
            theirs == ours,
            "the recording ends as {theirs:?}\nand Warren's script as {ours:?}"
        ),
        Differs(why) => ensure!(
            theirs != ours,
            "the outcome does not differ from the recording any more ({why}): {ours:?}"
        ),
    }
    Ok(())
}

#[test]
fn each_recorded_case_matches_or_differs_as_its_verdict_states() -> anyhow::Result<()> {
    if !gate::jq() {
        return Ok(());
    }
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/flux/prolog_epilog_traces.json");
    let recording: Recording = serde_json::from_str(&fs::read_to_string(file)?)?;
    for case in &recording.cases {
        judge(case).with_context(|| format!("case {:?}", case.name))?;
    }
    ensure!(
        recording.cases.len() == VERDICTS.len(),
        "VERDICTS has cases that are not in the recording"
    );
    Ok(())
}

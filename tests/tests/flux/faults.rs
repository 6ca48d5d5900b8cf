//! Cases that the recordings of flux-coral2's scripts lack: cancelled jobs, odd and hostile input, an unreachable
//! coordinator, an unreachable broker.

use std::process::Stdio;

use anyhow::{Context, ensure};
use tests::program::command;

use super::stage::{Ended, ORDINARY_JOB, RABBIT_JOB, Stage};

fn prolog() -> anyhow::Result<Stage> {
    Stage::new("prolog")?.with("F_JOBSPEC", RABBIT_JOB).with_settings("WARREN_UNREACHABLE=0\n")
}

fn epilog() -> anyhow::Result<Stage> {
    Stage::new("epilog")?.with("F_JOBSPEC", RABBIT_JOB).with_settings("WARREN_UNREACHABLE=0\n")
}

/// The agent's output for a busy mount: the table of mounts, the holders (the processes that keep the mount
/// busy), and the error.
const HELD: &str = "PATH          STATE\\n/mnt/nnf/a-0  mounted\\n/mnt/nnf/a-1  unmounted\\n\
    /mnt/nnf/a-0 is held by process 4711 (cat)\\nerror: not in time";

/// Returns the last argument of the only call that begins with these words.
fn last_argument_of(ended: &Ended, words: &str) -> anyhow::Result<String> {
    let calls = ended.calls_of(words);
    ensure!(calls.len() == 1, "{words}: {:#?}\n{}", ended.calls, ended.stderr);
    Ok(calls[0][words.len()..].to_owned())
}

/// bash once reported exit status -1 for one in a thousand agents that ended immediately, and then the
/// prolog drained the node.
#[test]
fn the_exit_status_of_an_agent_that_ends_at_once_is_kept() -> anyhow::Result<()> {
    let stage = Stage::new("prolog")?.with_program("clientmount-agent", "#!/bin/sh\nexit 7\n")?;
    let script = "own_setting() { return 1; }; . ../packaging/perilog/agent.bash; \
        for _ in {1..1000}; do once status; [ $code = 7 ] || echo \"exit status $code\"; done";
    let path = format!("{}:/usr/bin:/bin", stage.path().join("bin").display());
    let mut running = Vec::new();
    for _ in 0..4 {
        let mut bash = command("bash");
        bash.args(["-uo", "pipefail", "-c", script]).env("PATH", &path);
        bash.current_dir(env!("CARGO_MANIFEST_DIR"));
        running.push(bash.stdout(Stdio::piped()).spawn().context("start bash")?);
    }
    for child in running {
        let ended = child.wait_with_output()?;
        let output = String::from_utf8_lossy(&ended.stdout);
        ensure!(ended.status.success() && output.is_empty(), "{}: {output}", ended.status);
    }
    Ok(())
}

#[test]
fn a_job_without_storage_never_calls_the_agent() -> anyhow::Result<()> {
    if !gate::jq() {
        return Ok(());
    }
    for script in ["prolog", "epilog"] {
        let stage = Stage::new(script)?
            .with("F_JOBSPEC", ORDINARY_JOB)
            .with("F_AGENT", "7")
            .with("F_GETRABBIT", "1")
            .with_settings("nonsense\n")?;
        let ended = stage.run()?;
        ensure!(ended.exit == Some(0), "{script}: {ended:?}");
        ensure!(ended.calls == ["flux job info f2AVx5nQsoRy jobspec"], "{script}: {ended:?}");
        ensure!(stage.is_quiet() == (script == "prolog"), "{script}");
    }
    Ok(())
}

#[test]
fn a_run_directory_that_cannot_be_written_delays_no_job() -> anyhow::Result<()> {
    if !gate::jq() {
        return Ok(());
    }
    let stage = Stage::new("prolog")?.with("F_JOBSPEC", ORDINARY_JOB);
    // Creates a directory with the file's name, so that the write fails as on a full file system.
    std::fs::create_dir(stage.path().join("run/quiet")).context("make the directory")?;
    let ended = stage.run()?;
    ensure!(ended.exit == Some(0), "{ended:?}");
    ensure!(ended.stderr.contains("/quiet cannot be made"), "{ended:?}");
    Ok(())
}

#[test]
fn a_job_has_storage_if_its_jobspec_has_the_key_dw() -> anyhow::Result<()> {
    if !gate::jq() {
        return Ok(());
    }
    for (system, mounts) in [
        (r#"{"dw": ""}"#, true),
        (r#"{"dw": []}"#, true),
        (r#"{"dw": ["", "\n"]}"#, true),
        (r#"{"dw": null}"#, false),
        ("{}", false),
        ("null", false),
        // Flux writes no jobspec like this one. The prolog must ask the coordinator whether the job has storage.
        (r#""dw""#, true),
    ] {
        let jobspec = format!(r#"{{"attributes": {{"system": {system}}}}}"#);
        let ended = prolog()?.with("F_JOBSPEC", &jobspec).run()?;
        ensure!(ended.exit == Some(0), "{system}: {ended:?}");
        ensure!(
            ended.calls_of("clientmount-agent mount").len() == usize::from(mounts),
            "{system}: {ended:?}"
        );
    }
    Ok(())
}

#[test]
fn the_coordinator_decides_if_the_jobspec_cannot_be_read() -> anyhow::Result<()> {
    let odd = [
        ("an empty answer", prolog()?.with("F_JOBSPEC", "")),
        ("half an answer", prolog()?.with("F_JOBSPEC", r#"{"attributes": {"sys"#)),
        ("two answers", prolog()?.with("F_JOBSPEC", r#"{"attributes":{}} {"attributes":{}}"#)),
        ("a list", prolog()?.with("F_JOBSPEC", "[]")),
        ("a broker that is down", prolog()?.with("F_JOBINFO", "1")),
        // The last two cases stand for jq 1.6, which with -e exits with 0 on empty input, and for a node without jq, on
        // which the shell's exit status is 127.
        (
            "a jq that prints nothing and succeeds",
            prolog()?.with_program("jq", "#!/bin/sh\nexit 0\n")?,
        ),
        ("no jq", prolog()?.with_program("jq", "#!/bin/sh\nexit 127\n")?),
    ];
    for (what, stage) in odd {
        let known = stage.run()?;
        ensure!(known.exit == Some(0), "{what}: {known:?}");
        ensure!(known.calls_of("clientmount-agent status").len() == 1, "{what}: {known:?}");
        ensure!(known.calls_of("clientmount-agent mount").len() == 1, "{what}: {known:?}");
        // If the coordinator does not answer either, and Flux does not accept an exception on the job, the job does not
        // start.
        let unknown = stage.with("F_AGENT", "7").with("F_RAISE", "1").run()?;
        ensure!(unknown.exit == Some(7), "{what}: {unknown:?}");
        let new_calls = &unknown.calls[known.calls.len()..];
        ensure!(new_calls.iter().all(|call| !call.contains(" mount ")), "{what}: {new_calls:?}");
    }
    Ok(())
}

#[test]
fn each_exit_code_of_the_agent_has_one_consequence_in_the_prolog() -> anyhow::Result<()> {
    for (code, exit, consequence) in [
        (1, 1, "flux resource drain --update "),
        (2, 2, "flux resource drain --update "),
        (3, 0, "flux job raise -s 0 -t prolog-timeout "),
        (4, 4, "flux resource drain --update "),
        (5, 0, "flux job raise -s 0 -t prolog-storage "),
        (6, 6, ""),
        (7, 0, "flux job raise -s 0 -t prolog-unreachable "),
        (8, 8, "flux resource drain --update "),
        (127, 127, "flux resource drain --update "),
        (137, 137, "flux resource drain --update "),
    ] {
        let stage = prolog()?.with("F_AGENT", &code.to_string());
        let ended = stage.run()?;
        ensure!(ended.exit == Some(exit), "{code}: {ended:?}");
        let last = ended.calls.last().context("no call")?;
        let nothing_more = consequence.is_empty() && last.starts_with("clientmount-agent");
        ensure!(nothing_more || last.starts_with(consequence), "{code}: {ended:?}");
        ensure!(!stage.is_quiet(), "{code}");
        // If Flux does not accept the exception on the job, the prolog fails instead, so that the job does not start.
        let ended = stage.with("F_RAISE", "1").with("F_DRAIN", "1").run()?;
        ensure!(ended.exit == Some(code), "{code}: {ended:?}");
    }
    Ok(())
}

#[test]
fn the_epilog_exits_with_the_agents_status_and_raises_no_exception() -> anyhow::Result<()> {
    for code in [0, 1, 2, 3, 4, 5, 6, 7, 8, 137] {
        let ended =
            epilog()?.with("F_AGENT", &code.to_string()).with("F_AGENT_SAYS", HELD).run()?;
        ensure!(ended.exit == Some(code), "{code}: {ended:?}");
        ensure!(ended.calls_of("flux job raise").is_empty(), "{code}: {ended:?}");
        ensure!(ended.calls_of("clientmount-agent").len() == 1, "{code}: {ended:?}");
        if matches!(code, 0 | 6) {
            ensure!(ended.calls_of("flux resource").is_empty(), "{code}: {ended:?}");
            continue;
        }
        let reason = last_argument_of(&ended, "flux resource drain --update ")?;
        let node = nix::unistd::gethostname()?.to_string_lossy().into_owned();
        for part in [&*node, "f2AVx5nQsoRy", "/mnt/nnf/a-0", "4711 (cat)", "error: not in time"] {
            ensure!(reason.contains(part), "{code}: no {part} in {reason}");
        }
        ensure!(
            !reason.contains("/mnt/nnf/a-1"),
            "{code}: the path that was unmounted is in {reason}"
        );
    }
    Ok(())
}

#[test]
fn a_script_calls_the_agent_again_after_the_agent_or_the_coordinator_was_away() -> anyhow::Result<()>
{
    for (script, first) in [("prolog", "7"), ("prolog", "8"), ("epilog", "7"), ("epilog", "8")] {
        let ended =
            Stage::new(script)?.with("F_JOBSPEC", RABBIT_JOB).with("F_AGENT_FIRST", first).run()?;
        ensure!(ended.exit == Some(0), "{script} {first}: {ended:?}");
        ensure!(ended.calls_of("clientmount-agent").len() == 2, "{script} {first}: {ended:?}");
        ensure!(ended.calls.iter().all(|call| !call.starts_with("flux job raise")), "{ended:?}");
    }
    Ok(())
}

#[test]
fn a_signal_to_the_script_ends_the_agent() -> anyhow::Result<()> {
    for script in ["prolog", "epilog"] {
        let stage = Stage::new(script)?.with("F_JOBSPEC", RABBIT_JOB).with("F_AGENT_HANGS", "1");
        let ended = stage.run_and_cancel("waiting")?;
        ensure!(ended.exit == Some(6), "{script}: {ended:?}");
        ensure!(ended.calls_of("clientmount-agent").len() == 1, "{script}: {ended:?}");
        ensure!(ended.calls_of("flux resource").is_empty(), "{script}: {ended:?}");
        ensure!(!stage.is_quiet(), "{script}");
    }
    Ok(())
}

/// When Flux cancels a job, the agent may exit with any status. The prolog must not take that status for a
/// fault of the node.
#[test]
fn a_cancelled_prolog_drains_no_node_whatever_the_agents_status() -> anyhow::Result<()> {
    for code in ["1", "3", "4", "5", "7", "8", "143"] {
        let stage = prolog()?.with("F_AGENT_HANGS", "1").with("F_AGENT_CANCELLED", code);
        let ended = stage.run_and_cancel("waiting")?;
        ensure!(ended.exit == Some(6), "{code}: {ended:?}");
        ensure!(ended.calls_of("flux resource").is_empty(), "{code}: {ended:?}");
        ensure!(ended.calls_of("flux job raise").is_empty(), "{code}: {ended:?}");
        ensure!(!stage.is_quiet(), "{code}");
    }
    Ok(())
}

/// The agent assumes that a job without a Workflow has no storage. The prolog knows from the jobspec that
/// the job has storage.
#[test]
fn a_job_with_storage_and_without_a_workflow_does_not_start() -> anyhow::Result<()> {
    let says = "nothing to do: no Workflow is that of job f2AVx5nQsoRy";
    let known = prolog()?.with("F_AGENT_SAYS", says);
    let ended = known.run()?;
    ensure!(ended.exit == Some(0) && !known.is_quiet(), "{ended:?}");
    let raised = last_argument_of(&ended, "flux job raise -s 0 -t prolog-storage ")?;
    ensure!(raised.contains("no Workflow is that of"), "{raised}");
    // If Flux does not accept the exception, the prolog fails, so that the job still does not start.
    let ended = known.with("F_RAISE", "1").run()?;
    ensure!(ended.exit == Some(5), "{ended:?}");
    let unknown = prolog()?.with("F_AGENT_SAYS", says).with("F_JOBINFO", "1");
    let ended = unknown.run()?;
    ensure!(ended.exit == Some(0) && unknown.is_quiet(), "{ended:?}");
    ensure!(ended.calls_of("flux job raise").is_empty(), "{ended:?}");
    Ok(())
}

#[test]
fn the_shell_evaluates_no_text_of_a_user() -> anyhow::Result<()> {
    let hostile = |stage: &Stage| {
        let mark = stage.path().join("mark").display().to_string();
        format!("$(touch {mark}) `touch {mark}` '; touch {mark}; \" \\033[31m | touch {mark}")
    };
    let stage = prolog()?;
    let text = hostile(&stage);
    let jobspec = serde_json::json!({"attributes": {"system": {"dw": text}}}).to_string();
    let stage = stage.with("F_JOBSPEC", &jobspec).with("F_AGENT", "4").with("F_AGENT_SAYS", &text);
    let ended = stage.run()?;
    ensure!(ended.exit == Some(4), "{ended:?}");
    ensure!(!stage.path().join("mark").exists(), "the script evaluated the jobspec: {ended:?}");
    let reason = last_argument_of(&ended, "flux resource drain --update ")?;
    ensure!(reason.contains("$(touch") && !reason.contains('\u{1b}'), "{reason:?}");
    ensure!(!ended.stderr.contains('\u{1b}'), "{:?}", ended.stderr);

    for id in ["", "-f", "f1 f2", "$(touch mark)", "f1;true", "../x", "f1\nf2"] {
        for script in ["prolog", "epilog"] {
            let ended = Stage::new(script)?.with("FLUX_JOB_ID", id).run()?;
            ensure!(ended.exit == Some(2) && ended.calls.is_empty(), "{script} {id:?}: {ended:?}");
            ensure!(ended.stderr.contains("FLUX_JOB_ID"), "{script} {id:?}: {ended:?}");
        }
    }
    Ok(())
}

#[test]
fn a_job_id_with_the_florin_sign_is_passed_on_in_ascii() -> anyhow::Result<()> {
    let ended = prolog()?.with("FLUX_JOB_ID", "ƒ2AVx5nQsoRy").run()?;
    ensure!(ended.exit == Some(0), "{ended:?}");
    ensure!(
        ended.calls.last().is_some_and(|call| call.contains(" --job f2AVx5nQsoRy ")),
        "{ended:?}"
    );
    Ok(())
}

#[test]
fn no_token_and_no_list_of_rabbits_reaches_a_log() -> anyhow::Result<()> {
    for script in ["prolog", "epilog"] {
        for code in ["0", "3", "4", "7"] {
            let ended = Stage::new(script)?
                .with("F_JOBSPEC", RABBIT_JOB)
                .with_settings("WARREN_UNREACHABLE=0\n")?
                .with("F_AGENT", code)
                .run()?;
            let printed = format!("{}{}{:?}", ended.stdout, ended.stderr, ended.calls);
            for word in ["secret", "rabbit[1-2]", "wait-event", "getrabbit", "--env-file"] {
                ensure!(!printed.contains(word), "{script} {code}: {word} in {printed}");
            }
        }
    }
    Ok(())
}

#[test]
fn settings_of_the_file_become_flags_of_the_agent() -> anyhow::Result<()> {
    let settings = "# ours\n\nWARREN_PROLOG_DEADLINE=20m\nWARREN_EPILOG_DEADLINE=90\nWARREN_ON_TIMEOUT=lazy\nWARREN_UNREACHABLE=0";
    let ended = prolog()?.with_settings(settings)?.run()?;
    ensure!(ended.calls_of("flux config").is_empty(), "{ended:?}");
    ensure!(ended.calls.last().is_some_and(|call| call.ends_with("--deadline 1200s")), "{ended:?}");
    let ended = epilog()?.with_settings(settings)?.run()?;
    let flags = "--deadline 90s --on-timeout lazy";
    ensure!(ended.calls.last().is_some_and(|call| call.ends_with(flags)), "{ended:?}");
    for (flux, seconds) in [("30m", 1800), ("45", 45), ("2h", 7200), ("infinity", 1800), ("", 1800)]
    {
        let ended = prolog()?.with("F_TIMEOUT", flux).run()?;
        let flags = format!("--deadline {seconds}s");
        ensure!(ended.calls.last().is_some_and(|call| call.ends_with(&flags)), "{flux}: {ended:?}");
    }
    Ok(())
}

#[test]
fn a_wrong_setting_is_named_and_the_agent_is_not_called() -> anyhow::Result<()> {
    for (line, named) in [
        ("WARREN_PROLOG_DEADLINE=soon", "WARREN_PROLOG_DEADLINE: 'soon'"),
        ("WARREN_EPILOG_DEADLINE=-1s", "WARREN_EPILOG_DEADLINE: '-1s'"),
        ("WARREN_ON_TIMEOUT=kill", "WARREN_ON_TIMEOUT: 'kill'"),
        ("WARREN_UNREACHABLE=$(id)", "WARREN_UNREACHABLE: '$(id)'"),
        ("WARREN_TYPO=1", "'WARREN_TYPO=1' sets no variable of this file"),
        ("nonsense", "'nonsense' sets no variable of this file"),
    ] {
        for stage in [prolog()?, epilog()?] {
            let ended = stage.with_settings(line)?.run()?;
            ensure!(ended.exit == Some(2), "{line}: {ended:?}");
            ensure!(ended.calls_of("clientmount-agent").is_empty(), "{line}: {ended:?}");
            let reason = last_argument_of(&ended, "flux resource drain --update ")?;
            ensure!(reason.contains(named), "{line}: {reason}");
        }
    }
    Ok(())
}

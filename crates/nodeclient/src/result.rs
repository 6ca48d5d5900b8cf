//! Prints the result of a verb: a line for each mount, and for each process that keeps the mount in use;
//! or one JSON object.

use cli::Exit;
use cli::Failure;
use cli::Output;
use jiff::Timestamp;
use proto::v1::job_state::Knowledge;
use proto::v1::{Holder, JobOutcome, JobState, MountLine};
use serde_json::{Value, json};

const HEADER: [&str; 4] = ["PATH", "STATE", "SINCE", "WHY"];

/// Prints the outcome of a verb. With JSON, a failure goes to standard output too; otherwise it goes to standard error.
pub(crate) fn print(output: Output, outcome: &JobOutcome, done: &str) -> Result<Exit, Failure> {
    let exit = Exit::from(outcome.verdict());
    if output.is_json() {
        output.json(&as_json(outcome))?;
        return Ok(exit);
    }
    table(output, &outcome.mounts)?;
    if exit == Exit::Done {
        if outcome.mounts.is_empty() && !outcome.message.is_empty() {
            output.line(&format!("nothing to do: {}", outcome.message))?;
        } else {
            output.line(done)?;
        }
        return Ok(exit);
    }
    let failure = Failure::new(exit, outcome.message.as_str());
    let remedy = Some(outcome.remedy.as_str()).filter(|remedy| !remedy.is_empty());
    Err(match remedy {
        Some(remedy) => failure.remedy(remedy),
        None => failure,
    })
}

/// Prints the mounts, with the processes that keep them in use.
pub(crate) fn table(output: Output, mounts: &[MountLine]) -> Result<(), Failure> {
    if mounts.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = mounts.iter().map(row).collect();
    output.table(&HEADER.map(str::to_owned), &rows)?;
    for (line, holder) in
        mounts.iter().flat_map(|mount| mount.holders.iter().map(move |holder| (mount, holder)))
    {
        output.line(&format!("{} is held by {}", line.path, holder_text(holder)))?;
    }
    Ok(())
}

fn row(line: &MountLine) -> Vec<String> {
    let path = if line.path.is_empty() { &line.name } else { &line.path };
    let state = if line.state.is_empty() { "unknown" } else { &line.state };
    vec![path.clone(), state.to_owned(), time(line.since).unwrap_or_default(), line.why.clone()]
}

fn holder_text(holder: &Holder) -> String {
    let Holder { pid, command, user_id, since, mount_namespace, elsewhere } = holder;
    let since = time(*since).map_or_else(String::new, |since| format!(", since {since}"));
    let place = if *elsewhere {
        format!(", in another mount namespace (mnt:[{mount_namespace}])")
    } else {
        String::new()
    };
    format!("process {pid} ({command}, user {user_id}{since}{place})")
}

fn time(seconds: i64) -> Option<String> {
    let time = Timestamp::from_second(seconds).ok().filter(|_| seconds > 0)?;
    Some(time.to_string())
}

/// Returns the outcome as JSON.
fn as_json(outcome: &JobOutcome) -> Value {
    let exit = Exit::from(outcome.verdict());
    json!({
        "exitStatus": exit as u8,
        "message": outcome.message,
        "remedy": outcome.remedy,
        "job": outcome.job.as_ref().map(job_json),
        "mounts": mounts_json(&outcome.mounts),
    })
}

/// Returns the mounts as JSON.
pub(crate) fn mounts_json(mounts: &[MountLine]) -> Vec<Value> {
    let holder = |holder: &Holder| {
        json!({
            "pid": holder.pid, "command": holder.command, "userId": holder.user_id,
            "since": time(holder.since), "mountNamespace": holder.mount_namespace,
            "elsewhere": holder.elsewhere,
        })
    };
    let mount = |line: &MountLine| {
        let holders: Vec<_> = line.holders.iter().map(holder).collect();
        json!({
            "namespace": line.namespace, "name": line.name, "path": line.path,
            "desired": line.desired, "state": line.state, "since": time(line.since),
            "why": line.why, "holders": holders,
        })
    };
    mounts.iter().map(mount).collect()
}

/// Returns the job as JSON, without its environment, which only the job itself may read.
pub(crate) fn job_json(state: &JobState) -> Value {
    let knowledge = match state.knowledge() {
        Knowledge::Known => "known",
        Knowledge::Unknown => "unknown",
        Knowledge::Ambiguous => "ambiguous",
        Knowledge::Uncertain | Knowledge::Unspecified => "uncertain",
    };
    json!({
        "knowledge": knowledge, "why": state.why, "workflow": state.workflow,
        "namespace": state.namespace, "desiredState": state.desired_state, "state": state.state,
        "ready": state.ready, "status": state.status, "message": state.message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_printed_with_all_known_fields() {
        let holder = Holder {
            pid: 7,
            command: "cat".to_owned(),
            user_id: 1050,
            since: 1_763_640_000,
            mount_namespace: 4_026_531_841,
            elsewhere: true,
        };
        assert_eq!(
            holder_text(&holder),
            "process 7 (cat, user 1050, since 2025-11-20T12:00:00Z, in another mount namespace (mnt:[4026531841]))"
        );
        assert_eq!(holder_text(&Holder { pid: 7, ..Holder::default() }), "process 7 (, user 0)");
    }
}

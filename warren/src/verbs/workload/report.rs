//! Prints jobs, for users and scripts.

use jiff::Timestamp;
use proto::v1::node_condition::Condition;
use proto::v1::{
    CapacityResponse, Deadline, ListResponse, NodeCondition, Role, Workload, deadline::Outcome,
};
use serde_json::{Value, json};

use crate::failure::Failure;
use cli::Exit;
use cli::Output;

const HEADER: [&str; 5] = ["NODE", "ROLE", "CONDITION", "MOUNTED", "EVIDENCE"];

/// Prints a job's state. Returns the exit status that belongs to the coordinator's verdict on the call.
pub(super) fn workload(workload: &Workload, output: Output) -> Result<Exit, Failure> {
    let exit = Exit::from(workload.verdict());
    if output.is_json() {
        output.json(&as_json(workload))?;
        return Ok(exit);
    }
    output.line(&line(workload))?;
    for deadline in &workload.deadlines {
        output.line(&deadline_line(deadline))?;
    }
    for lost in &workload.lost {
        output.line(&format!(
            "continues without {}, lost in {}: {}",
            lost.node, lost.state, lost.evidence
        ))?;
    }
    if !workload.nodes.is_empty() {
        let rows: Vec<_> = workload.nodes.iter().map(row).collect();
        output.table(&HEADER.map(str::to_owned), &rows)?;
    }
    if exit == Exit::Done {
        return Ok(exit);
    }
    let mut remedy = vec![workload.remedy.clone()];
    remedy.extend(workload.waits_for.iter().cloned());
    Err(Failure::new(exit, workload.message.as_str()).remedy(remedy.join("\n")))
}

/// Prints one answer of a watch.
pub(super) fn news(workload: &Workload, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        return output.line(&as_json(workload).to_string());
    }
    let line = line(workload);
    output.line(&if workload.message.is_empty() {
        line
    } else {
        format!("{line}: {}", workload.message)
    })
}

/// Prints the total and free bytes of all usable rabbits, and the computes whose rabbit gives no storage.
pub(super) fn capacity(response: &CapacityResponse, output: Output) -> Result<Exit, Failure> {
    let CapacityResponse { total, free, avoid } = response;
    if output.is_json() {
        output.json(&json!({"total": total, "free": free, "avoid": avoid}))?;
    } else {
        let row = vec![total.to_string(), free.to_string(), avoid.clone()];
        output.table(&["TOTAL", "FREE", "AVOID"].map(str::to_owned), &[row])?;
    }
    Ok(Exit::Done)
}

/// Prints the ids of jobs, one per line.
pub(super) fn jobs(response: &ListResponse, output: Output) -> Result<Exit, Failure> {
    if output.is_json() {
        output.json(&json!({"jobs": response.jobs}))?;
        return Ok(Exit::Done);
    }
    for job in &response.jobs {
        output.line(job)?;
    }
    Ok(Exit::Done)
}

/// Prints the job's variables. They are valid once the storage is mounted; `ahead` prints them before that.
pub(super) fn env(workload: &Workload, ahead: bool, output: Output) -> Result<Exit, Failure> {
    if !ahead && (workload.state != "PreRun" || !workload.ready) {
        let what = format!("the job is in {}, and its storage is not mounted", workload.state);
        return Err(Failure::new(Exit::Retryable, what).remedy("`warren workload start` mounts it"));
    }
    let mut variables: Vec<_> = workload.env.iter().collect();
    variables.sort();
    if output.is_json() {
        output.json(&json!(workload.env))?;
        return Ok(Exit::Done);
    }
    for (name, value) in variables {
        output.line(&format!("{name}={value}"))?;
    }
    Ok(Exit::Done)
}

fn line(workload: &Workload) -> String {
    let job = workload.job.clone().unwrap_or_default();
    let state = match (workload.state.as_str(), workload.ready) {
        ("", _) if workload.desired_state.is_empty() => "there is no such job".to_owned(),
        (state, true) if state == workload.desired_state => format!("{state} is ready"),
        _ => format!("{} is requested", workload.desired_state),
    };
    format!("{} of {}: {state}", job.job, job.manager)
}

fn deadline_line(deadline: &Deadline) -> String {
    let outcome = outcome(deadline);
    let (asked, due) = (time(deadline.asked), time(deadline.due));
    format!(
        "deadline of {}: {due} ({outcome}), set at {asked} by {}",
        deadline.state, deadline.owner
    )
}

fn outcome(deadline: &Deadline) -> &'static str {
    match deadline.outcome() {
        Outcome::Unspecified => "unknown",
        Outcome::Open => "open",
        Outcome::Met => "met",
        Outcome::Missed => "missed",
        Outcome::Abandoned => "abandoned",
    }
}

fn time(seconds: i64) -> String {
    Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default()
}

fn row(node: &NodeCondition) -> Vec<String> {
    let mounted = if node.mounted { "yes" } else { "no" };
    let words = [&node.node, role(node), condition(node), mounted, &node.evidence];
    words.map(str::to_owned).to_vec()
}

fn role(node: &NodeCondition) -> &'static str {
    match node.role() {
        Role::Rabbit => "rabbit",
        Role::Compute => "compute",
        Role::Unspecified => "",
    }
}

fn condition(node: &NodeCondition) -> &'static str {
    match node.condition() {
        Condition::Unspecified => "unknown",
        Condition::Ready => "ready",
        Condition::Pending => "pending",
        Condition::Faulty => "faulty",
        Condition::Down => "down",
        Condition::Unreachable => "unreachable",
    }
}

/// Returns the job as JSON, without its variables: these are only for the job itself.
fn as_json(workload: &Workload) -> Value {
    let job = workload.job.clone().unwrap_or_default();
    let deadlines = workload.deadlines.iter().map(|deadline| {
        json!({
            "state": deadline.state, "owner": deadline.owner, "asked": time(deadline.asked), "due": time(deadline.due),
            "outcome": outcome(deadline),
        })
    });
    let nodes = workload.nodes.iter().map(|node| {
        json!({
            "node": node.node, "role": role(node), "condition": condition(node),
            "evidence": node.evidence, "mounted": node.mounted,
        })
    });
    let lost = workload
        .lost
        .iter()
        .map(|lost| json!({"node": lost.node, "state": lost.state, "evidence": lost.evidence}));
    json!({
        "manager": job.manager, "job": job.job, "workflow": workload.workflow,
        "exitStatus": Exit::from(workload.verdict()) as u8, "message": workload.message, "remedy": workload.remedy,
        "state": workload.state, "desiredState": workload.desired_state, "ready": workload.ready, "status": workload.status,
        "userId": workload.user_id, "groupId": workload.group_id,
        "deadlines": deadlines.collect::<Vec<_>>(), "nodes": nodes.collect::<Vec<_>>(),
        "waitsFor": workload.waits_for, "aborted": workload.aborted,
        "tolerance": workload.tolerance, "lost": lost.collect::<Vec<_>>(),
    })
}

//! Checks the arguments of calls. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use directive::Command;
use proto::limits::shortened;
use proto::v1::{JobId, Patience};
use tonic::Status;

use super::tolerance;

/// Deadline of a call that names no deadline.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(300);
/// Longest deadline that a call may name. A call with a longer deadline is refused.
const LONGEST_DEADLINE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Longest name MANAGER-JOB in bytes: it must fit into a Kubernetes label.
const NAME: usize = 63;
/// Largest number of nodes of a job.
const NODES: usize = 1 << 17;

/// Longest reason for an abort, in bytes.
const REASON: usize = 256;

/// The Kubernetes namespace of all jobs' Workflows.
pub(super) const NAMESPACE: &str = "default";

/// Checks a job's id, and returns it with the name of the job's Workflow.
///
/// # Errors
/// If a part is missing or malformed.
pub(super) fn job(id: Option<JobId>) -> Result<(JobId, String), Status> {
    let id = id.ok_or_else(|| invalid("job", "", "name the manager and the job"))?;
    for (field, text) in [("job.manager", &id.manager), ("job.job", &id.job)] {
        let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let ends = text.starts_with('-') || text.ends_with('-');
        if text.is_empty() || ends || !text.bytes().all(is_good) {
            return Err(invalid(field, text, "use lower-case letters, digits and inner dashes"));
        }
    }
    let name = format!("{}-{}", id.manager, id.job);
    if name.len() > NAME {
        return Err(invalid(
            "job",
            &name,
            "manager and job together may have at most 62 characters",
        ));
    }
    Ok((id, name))
}

/// Checks the nodes of a job.
///
/// # Errors
/// If a name is malformed or occurs twice.
pub(super) fn nodes(nodes: Vec<String>) -> Result<Vec<String>, Status> {
    if nodes.len() > NODES {
        return Err(invalid("nodes", &nodes.len().to_string(), "a job has at most 131072 nodes"));
    }
    let mut names = BTreeSet::new();
    for node in &nodes {
        if !hostname_validator::is_valid(node) {
            return Err(invalid("nodes", node, "name nodes as the SystemConfiguration does"));
        }
        if !names.insert(node) {
            return Err(invalid("nodes", node, "name each node once"));
        }
    }
    Ok(nodes)
}

/// Splits directives into lines, and parses each line.
///
/// # Errors
/// If a line is not a directive; the error names the line.
pub(super) fn directives(texts: &[String]) -> Result<Vec<String>, Status> {
    let lines: Vec<String> = texts.iter().flat_map(|text| directive::split(text)).collect();
    for line in &lines {
        line.parse::<directive::Directive>()
            .map_err(|error| Status::invalid_argument(format!("directive `{line}`: {error}")))?;
    }
    Ok(lines)
}

/// The time that a call may take, whether it renews the state's deadline, and whether it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub within: Duration,
    pub renew: bool,
    pub waits: bool,
}

/// Checks the time that a call may take.
///
/// # Errors
/// If the time is longer than 30 days.
pub(super) fn limit(patience: Option<Patience>) -> Result<Limit, Status> {
    let Patience { seconds, renew, no_wait } = patience.unwrap_or_default();
    let within = if seconds == 0 { DEFAULT_DEADLINE } else { Duration::from_secs(seconds.into()) };
    if within > LONGEST_DEADLINE {
        return Err(invalid("patience.seconds", &seconds.to_string(), "give at most 30 days"));
    }
    Ok(Limit { within, renew, waits: !no_wait })
}

/// Checks that a job with these directives can continue without some of its nodes.
///
/// # Errors
/// If a directive needs all its nodes; the error names the directive.
pub(super) fn tolerance(nodes: u32, directives: &[String]) -> Result<(), Status> {
    let is_whole = |line: &&String| {
        matches!(
            tolerance::command(line),
            Some(Command::CreatePersistent(_) | Command::DestroyPersistent(_))
        )
    };
    match directives.iter().find(is_whole).filter(|_| nodes > 0) {
        None => Ok(()),
        Some(line) => Err(invalid(
            "tolerance",
            &nodes.to_string(),
            &format!("leave it out: `{line}` needs all its nodes"),
        )),
    }
}

/// Returns the reason for an abort as one line of limited length.
pub(super) fn reason(text: &str) -> String {
    let text = causes::escaped(&text.split_whitespace().collect::<Vec<_>>().join(" "), "");
    if text.is_empty() { "no reason is given".to_owned() } else { shortened(text, REASON) }
}

fn invalid(argument: &str, value: &str, remedy: &str) -> Status {
    Status::invalid_argument(format!("argument {argument}: {value:?}: {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workflow_name(manager: &str, name: &str) -> Result<String, String> {
        let id = JobId { manager: manager.to_owned(), job: name.to_owned() };
        job(Some(id)).map(|(_, name)| name).map_err(|status| status.message().to_owned())
    }

    #[test]
    fn a_job_id_that_gives_an_invalid_or_too_long_object_name_is_refused() {
        assert_eq!(workflow_name("slurm", "4711").unwrap(), "slurm-4711");
        assert_eq!(workflow_name("slurm", "4711-3").unwrap(), "slurm-4711-3");
        for (manager, name) in [("", "1"), ("slurm", ""), ("Slurm", "1"), ("s", "a/b"), ("s", "1-")]
        {
            assert!(
                workflow_name(manager, name).unwrap_err().contains("argument job."),
                "{manager}-{name}"
            );
        }
        assert!(workflow_name("s", &"1".repeat(62)).unwrap_err().contains("62 characters"));
    }

    #[test]
    fn a_repeated_or_malformed_node_is_refused() {
        let check = |names: &[&str]| nodes(names.iter().map(|&name| name.to_owned()).collect());
        assert!(check(&["c1", "c2.hpc"]).is_ok());
        assert!(check(&["c1", "c1"]).unwrap_err().message().contains("once"));
        assert!(check(&["c1;reboot"]).unwrap_err().message().contains("argument nodes"));
    }

    #[test]
    fn the_refusal_of_a_directive_quotes_its_line() {
        let refused = directives(&["#DW".to_owned()]).unwrap_err();
        assert!(refused.message().starts_with("directive `#DW`: "), "{}", refused.message());
    }

    #[test]
    fn a_deadline_of_more_than_30_days_is_refused() {
        assert_eq!(limit(None).unwrap().within, DEFAULT_DEADLINE);
        let patience = Patience { seconds: u32::MAX, ..Patience::default() };
        assert!(limit(Some(patience)).is_err());
    }
}

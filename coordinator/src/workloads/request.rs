//! What a call asks for, checked once. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use directive::Command;
use proto::limits::shortened;
use proto::v1::{JobId, Patience};
use tonic::Status;

use super::tolerance;

/// How long a call may take when it names no limit.
const USUAL: Duration = Duration::from_secs(300);
/// How long a call may take at most: what is longer is a mistake.
const MOST: Duration = Duration::from_secs(30 * 24 * 3600);
/// Bytes of a name: MANAGER-JOB must fit into a label.
const NAME: usize = 63;
/// Nodes of a job.
const NODES: usize = 1 << 17;

/// Bytes of a reason.
const REASON: usize = 256;

/// The namespace of all Workflows.
pub(super) const NAMESPACE: &str = "default";

/// The job, and the name of its Workflow.
///
/// # Errors
/// When a part is missing or malformed.
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
        return Err(invalid("job", &name, "both together have at most 62 characters"));
    }
    Ok((id, name))
}

/// The nodes of a job.
///
/// # Errors
/// When one is malformed or named twice.
pub(super) fn nodes(nodes: Vec<String>) -> Result<Vec<String>, Status> {
    if nodes.len() > NODES {
        return Err(invalid("nodes", &nodes.len().to_string(), "a job has at most 131072 nodes"));
    }
    let mut seen = BTreeSet::new();
    for node in &nodes {
        if !hostname_validator::is_valid(node) {
            return Err(invalid("nodes", node, "name nodes as SystemConfiguration does"));
        }
        if !seen.insert(node) {
            return Err(invalid("nodes", node, "name each node once"));
        }
    }
    Ok(nodes)
}

/// The directives, one a line.
///
/// # Errors
/// Names the line that is none.
pub(super) fn directives(texts: &[String]) -> Result<Vec<String>, Status> {
    let lines: Vec<String> = texts.iter().flat_map(|text| directive::split(text)).collect();
    for line in &lines {
        line.parse::<directive::Directive>()
            .map_err(|error| Status::invalid_argument(format!("directive `{line}`: {error}")))?;
    }
    Ok(lines)
}

/// How long a call may take, whether its deadline begins anew, and whether it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub within: Duration,
    pub renew: bool,
    pub waits: bool,
}

/// How long a call may take.
///
/// # Errors
/// When it is longer than 30 days.
pub(super) fn limit(patience: Option<Patience>) -> Result<Limit, Status> {
    let Patience { seconds, renew, no_wait } = patience.unwrap_or_default();
    let within = if seconds == 0 { USUAL } else { Duration::from_secs(seconds.into()) };
    if within > MOST {
        return Err(invalid("patience.seconds", &seconds.to_string(), "at most 30 days"));
    }
    Ok(Limit { within, renew, waits: !no_wait })
}

/// Checks that a job can go on without some of its nodes.
///
/// # Errors
/// Names the directive that a lost node spoils.
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
            &format!("leave it out: `{line}` is carried out as a whole or not at all"),
        )),
    }
}

/// The reason for which a job is aborted: one line of limited length.
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

    fn named(manager: &str, name: &str) -> Result<String, String> {
        let id = JobId { manager: manager.to_owned(), job: name.to_owned() };
        job(Some(id)).map(|(_, name)| name).map_err(|status| status.message().to_owned())
    }

    #[test]
    fn a_job_has_a_name_that_objects_can_have() {
        assert_eq!(named("slurm", "4711").unwrap(), "slurm-4711");
        assert_eq!(named("slurm", "4711-3").unwrap(), "slurm-4711-3");
        for (manager, name) in [("", "1"), ("slurm", ""), ("Slurm", "1"), ("s", "a/b"), ("s", "1-")]
        {
            assert!(
                named(manager, name).unwrap_err().contains("argument job."),
                "{manager}-{name}"
            );
        }
        assert!(named("s", &"1".repeat(62)).unwrap_err().contains("62 characters"));
    }

    #[test]
    fn nodes_are_named_once() {
        let told = |names: &[&str]| nodes(names.iter().map(|&name| name.to_owned()).collect());
        assert!(told(&["c1", "c2.hpc"]).is_ok());
        assert!(told(&["c1", "c1"]).unwrap_err().message().contains("once"));
        assert!(told(&["c1;reboot"]).unwrap_err().message().contains("argument nodes"));
    }

    #[test]
    fn a_directive_that_is_none_is_shown() {
        let refused = directives(&["#DW".to_owned()]).unwrap_err();
        assert!(refused.message().starts_with("directive `#DW`: "), "{}", refused.message());
    }

    #[test]
    fn patience_is_finite() {
        assert_eq!(limit(None).unwrap().within, USUAL);
        let patience = Patience { seconds: u32::MAX, ..Patience::default() };
        assert!(limit(Some(patience)).is_err());
    }
}

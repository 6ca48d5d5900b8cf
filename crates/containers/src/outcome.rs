//! Determines the state of the container on a rabbit, from its Job and the Job's pods.

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ContainerStatus, Pod, PodSpec},
};

/// Name of the label whose value is the node's name.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
/// Maximum number of log lines in the reason for a failure.
const MAX_LOG_LINES: usize = 5;

/// The state of the container on a rabbit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No container is ready yet.
    Starting,
    /// The container runs and is ready.
    Ready,
    /// The container ended with exit code 0.
    Succeeded,
    /// The containers were stopped: no pod of the Job runs, and no new pod is started.
    Suspended,
    /// The container failed for good.
    Failed,
    /// The container missed its deadline.
    TooLate,
    /// A job package could not be fetched, so no container was started.
    Unprepared,
}

impl State {
    /// Returns a short label for lists and metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Succeeded => "succeeded",
            Self::Suspended => "suspended",
            Self::Failed => "failed",
            Self::TooLate => "too late",
            Self::Unprepared => "not started",
        }
    }

    /// Returns whether no container runs any more.
    #[must_use]
    pub fn is_ended(self) -> bool {
        match self {
            Self::Starting | Self::Ready => false,
            Self::Suspended | Self::Succeeded | Self::Failed | Self::TooLate | Self::Unprepared => {
                true
            }
        }
    }
}

/// Returns the state of a Job.
#[must_use]
pub fn state(job: &Job) -> State {
    let status = job.status.as_ref();
    let conditions = || status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    let holds = |kind: &str| {
        conditions().find(|condition| condition.type_ == kind && condition.status == "True")
    };
    if holds("Complete").is_some() {
        return State::Succeeded;
    }
    match holds("Failed").map(|failed| failed.reason.as_deref()) {
        Some(Some("DeadlineExceeded")) => State::TooLate,
        Some(_) => State::Failed,
        None if is_stopped(job) => State::Suspended,
        None if status.and_then(|status| status.ready).unwrap_or(0) > 0 => State::Ready,
        None => State::Starting,
    }
}

/// Returns the rabbit to which a Job's pods are bound.
#[must_use]
pub fn rabbit_of(job: &Job) -> &str {
    bound_rabbit(job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()))
}

/// Returns the rabbit to which a pod is bound. The host name does not name the rabbit: MPI pods are
/// named after the workflow.
#[must_use]
pub fn rabbit_of_pod(pod: &Pod) -> &str {
    bound_rabbit(pod.spec.as_ref())
}

fn bound_rabbit(pod: Option<&PodSpec>) -> &str {
    let selector = pod.and_then(|pod| pod.node_selector.as_ref());
    selector.and_then(|selector| selector.get(HOSTNAME)).map_or("", String::as_str)
}

/// Returns whether the Job is suspended by its spec, and its controller has reported that the last pod is gone.
fn is_stopped(job: &Job) -> bool {
    let is_requested = job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true);
    let has_stopped = job.status.as_ref().is_some_and(|status| {
        let mut conditions = status.conditions.iter().flatten();
        let pods = status.active.unwrap_or(0) + status.terminating.unwrap_or(0);
        pods == 0
            && conditions
                .any(|condition| condition.type_ == "Suspended" && condition.status == "True")
    });
    is_requested && has_stopped
}

/// Returns why the latest pod of a Job failed or waits: the container, the exit code or signal, and the last lines
/// of the container's log.
#[must_use]
pub fn reason<'a>(pods: impl Iterator<Item = &'a Pod>) -> Option<String> {
    let latest = pods.max_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|at| at.0))?;
    let status = latest.status.as_ref()?;
    let statuses =
        status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let statuses: Vec<&ContainerStatus> = statuses.collect();
    let ended = statuses.iter().find_map(|container| exit_reason(container));
    let waits = || statuses.iter().find_map(|container| wait_reason(container));
    let unplaced = || {
        let mut conditions = status.conditions.iter().flatten();
        let scheduled = conditions.find(|condition| condition.type_ == "PodScheduled")?;
        scheduled.message.clone().filter(|_| scheduled.status == "False")
    };
    // The pod as a whole failed, for example by an eviction.
    let whole = || {
        let reason = status.reason.clone()?;
        Some(append(reason, status.message.as_deref()))
    };
    ended.or_else(whole).or_else(waits).or_else(unplaced)
}

fn exit_reason(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    let ended = state.terminated.as_ref().filter(|ended| ended.exit_code != 0)?;
    let signal = ended.signal.filter(|signal| *signal > 0);
    let end = End {
        code: ended.exit_code,
        signal,
        is_out_of_memory: ended.reason.as_deref() == Some("OOMKilled"),
    };
    Some(end.message(&container.name, ended.message.as_deref()))
}

/// How a container ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub code: i32,
    /// The signal that ended the container.
    pub signal: Option<i32>,
    /// Whether the kernel ended the container because it used more memory than its limit.
    pub is_out_of_memory: bool,
}

impl End {
    /// Describes the end, with the last lines of the container's log.
    #[must_use]
    pub fn message(self, name: &str, log: Option<&str>) -> String {
        let how = match (self.signal, self.is_out_of_memory) {
            (_, true) => format!("container {name} was ended: OOMKilled"),
            (Some(signal), _) => format!("container {name} was ended by signal {signal}"),
            _ => format!("container {name} exited with {}", self.code),
        };
        append(how, log.map(last_lines).as_deref())
    }
}

fn wait_reason(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_ref()?;
    Some(append(format!("container {}: {reason}", container.name), waiting.message.as_deref()))
}

fn append(text: String, more: Option<&str>) -> String {
    match more.map(str::trim).filter(|more| !more.is_empty()) {
        Some(more) => format!("{text}: {more}"),
        None => text,
    }
}

/// Joins the last lines of a log into one line, and escapes control characters, because a log may contain sequences
/// that control a terminal.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    causes::escaped(&lines[lines.len().saturating_sub(MAX_LOG_LINES)..].join(" | "), "")
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "json! makes values")]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn state_of(status: Value) -> State {
        state(&from_value(json!({"metadata": {}, "status": status})).unwrap())
    }

    fn condition(kind: &str, reason: &str) -> Value {
        json!({"conditions": [{"type": kind, "status": "True", "reason": reason}], "ready": 0})
    }

    #[test]
    fn control_characters_of_a_log_are_escaped() {
        let end = End { code: 1, signal: None, is_out_of_memory: false };
        let message = end.message("app", Some("fine\n\u{1b}]0;owned\u{7}\n"));
        assert_eq!(message, "container app exited with 1: fine | \\u{1b}]0;owned\\u{7}");
    }

    #[test]
    fn a_job_has_ended_once_its_conditions_report_the_end() {
        assert_eq!(state_of(json!({})), State::Starting);
        assert_eq!(state_of(json!({"active": 1, "ready": 0})), State::Starting);
        assert_eq!(state_of(json!({"active": 1, "ready": 1})), State::Ready);
        let stopped = |status: Value| {
            state(
                &from_value(json!({"spec": {"suspend": true, "template": {}}, "status": status}))
                    .unwrap(),
            )
        };
        let mut status = condition("Suspended", "JobSuspended");
        assert_eq!(stopped(status.clone()), State::Suspended);
        assert_eq!(state_of(status.clone()), State::Starting, "spec.suspend is false again");
        status["terminating"] = json!(1);
        assert_eq!(stopped(status), State::Starting, "a pod is still terminating");
        assert_eq!(stopped(json!({"active": 1, "ready": 1})), State::Ready);
        assert_eq!(state_of(condition("Complete", "CompletionsReached")), State::Succeeded);
        assert_eq!(state_of(condition("Failed", "BackoffLimitExceeded")), State::Failed);
        assert_eq!(state_of(condition("Failed", "DeadlineExceeded")), State::TooLate);
        // The Job's controller has not ended all of the Job's pods yet.
        assert_eq!(state_of(condition("FailureTarget", "DeadlineExceeded")), State::Starting);
    }

    fn pod(at: &str, status: Value) -> Pod {
        let metadata = json!({"name": "p", "creationTimestamp": at});
        from_value(json!({"metadata": metadata, "status": status})).unwrap()
    }

    fn terminated_status(terminated: Value) -> Value {
        let state = json!({"terminated": terminated});
        let ready = json!({"name": "app", "state": state, "ready": false, "restartCount": 0, "image": "i", "imageID": ""});
        json!({"containerStatuses": [ready]})
    }

    #[test]
    fn the_reason_comes_from_the_latest_pod() {
        let cases = [
            (terminated_status(json!({"exitCode": 3})), "container app exited with 3"),
            (
                terminated_status(json!({"exitCode": 1, "message": "a\nb\n\nc\nd\ne\nf\n"})),
                "container app exited with 1: b | c | d | e | f",
            ),
            (
                terminated_status(json!({"exitCode": 137, "signal": 9})),
                "container app was ended by signal 9",
            ),
            (
                terminated_status(json!({"exitCode": 137, "reason": "OOMKilled"})),
                "container app was ended: OOMKilled",
            ),
            (
                json!({"reason": "Evicted", "message": "the node had no memory"}),
                "Evicted: the node had no memory",
            ),
            (
                json!({"containerStatuses": [{"name": "app", "ready": false, "restartCount": 0, "image": "i", "imageID": "",
                    "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]}),
                "container app: ImagePullBackOff: no such image",
            ),
            (
                json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]}),
                "0/1 nodes are available",
            ),
        ];
        let earlier = pod("2026-11-25T10:00:00Z", terminated_status(json!({"exitCode": 99})));
        for (status, expected) in cases {
            let latest = pod("2026-11-25T10:00:01Z", status);
            assert_eq!(reason([&latest, &earlier].into_iter()).as_deref(), Some(expected));
        }
        assert_eq!(reason(std::iter::empty()), None);
    }
}

//! What podman says of an object's containers.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use thiserror::Error;

/// The label with the uid of the object.
pub const UID: &str = "warren.nnf.cray.hpe.com/node-containers";
/// The label with the number of the attempt.
pub const ATTEMPT: &str = "warren.nnf.cray.hpe.com/attempt";
/// The label with the container's name in the object.
pub const CONTAINER: &str = "warren.nnf.cray.hpe.com/container";

/// podman's answer is not what its versions from 4.3 on give.
#[derive(Debug, Error)]
pub enum AnswerError {
    #[error("read what podman says of {of}: see that it is podman 4.3 or newer")]
    Unreadable {
        /// What was asked.
        of: &'static str,
        #[source]
        source: serde_json::Error,
    },
    #[error("pod {0} has our label and no attempt: remove it with podman pod rm")]
    NoAttempt(String),
}

/// All that is there of an object's containers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Whether there is anything of their files and keys, also what was not written to its end.
    pub has_directory: bool,
    /// Whether they have the files of their configuration.
    pub has_files: bool,
    /// Whether they have their keys.
    pub has_keys: bool,
    /// Attempts whose shared directories are there.
    pub volumes: BTreeSet<i64>,
    /// Attempts by number.
    pub attempts: BTreeMap<i64, Attempt>,
}

/// One attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempt {
    /// Whether any process of it runs, also that which holds its network.
    pub is_running: bool,
    /// Whether it is in the network of its run.
    pub is_connected: bool,
    /// Containers by name.
    pub containers: BTreeMap<String, Container>,
}

/// One container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// How far it is.
    pub state: State,
    /// The process that notices its end and writes it down.
    pub monitor: Option<i32>,
    /// The end of its log, where it was read.
    pub log: String,
}

/// Which logs are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logs {
    /// Those of containers that ended.
    OfEnded,
    /// Those of containers that run too.
    All,
}

/// How far a container is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It was not started.
    Created,
    /// It runs.
    Running,
    /// It ended.
    Ended {
        /// Its exit code.
        code: i32,
        /// Whether it used more memory than it may.
        is_out_of_memory: bool,
        /// When.
        at: Timestamp,
    },
    /// It ran when its rabbit stopped: how it would have ended is not known.
    Lost,
}

impl Observed {
    /// Processes whose ends change something.
    pub(crate) fn monitors(&self) -> Vec<i32> {
        let containers = self.attempts.values().flat_map(|attempt| attempt.containers.values());
        containers.filter_map(|container| container.monitor).collect()
    }
}

/// A pod, as `podman pod ps --format json` lists it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Pod {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    containers: Option<Vec<Member>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Member {
    id: String,
    status: String,
}

/// A container, as `podman container inspect` shows it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Inspected {
    id: String,
    state: InspectedState,
    config: Config,
    host_config: HostConfig,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedState {
    status: String,
    #[serde(default, rename = "OOMKilled")]
    is_out_of_memory: bool,
    #[serde(default)]
    pid: i32,
    #[serde(default)]
    conmon_pid: i32,
    exit_code: i32,
    finished_at: Timestamp,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Config {
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HostConfig {
    log_config: LogConfig,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LogConfig {
    #[serde(default)]
    path: String,
}

/// Reads the list of pods; podman prints `null` for none.
pub(super) fn pods(text: &[u8]) -> Result<Vec<Pod>, AnswerError> {
    let pods: Result<Option<Vec<Pod>>, _> = serde_json::from_slice(text);
    pods.map(Option::unwrap_or_default)
        .map_err(|source| AnswerError::Unreadable { of: "pods", source })
}

/// Reads the output of `podman container inspect`.
pub(super) fn inspected(text: &[u8]) -> Result<Vec<Inspected>, AnswerError> {
    serde_json::from_slice(text)
        .map_err(|source| AnswerError::Unreadable { of: "containers", source })
}

/// Ids of the containers in these pods.
pub(super) fn members(pods: &[Pod]) -> Vec<String> {
    pods.iter().flat_map(|pod| pod.containers.iter().flatten()).map(|one| one.id.clone()).collect()
}

/// Puts both together, with these logs. `read` returns the end of a log, and `is_connected` whether the process is in a network of a run.
pub(super) fn attempts(
    pods: &[Pod],
    inspected: &[Inspected],
    logs: Logs,
    read: impl Fn(&str) -> String,
    is_connected: impl Fn(i32) -> bool,
) -> Result<BTreeMap<i64, Attempt>, AnswerError> {
    let mut attempts = BTreeMap::new();
    for pod in pods {
        let number = pod.labels.get(ATTEMPT).and_then(|text| text.parse().ok());
        let number: i64 = number.ok_or_else(|| AnswerError::NoAttempt(pod.name.clone()))?;
        let members: BTreeSet<&str> =
            pod.containers.iter().flatten().map(|one| one.id.as_str()).collect();
        let is_running = pod.containers.iter().flatten().any(|one| is_running(&one.status));
        let own = inspected.iter().filter(|one| members.contains(one.id.as_str()));
        let containers =
            own.clone().filter_map(|one| Some((name(one)?, container(one, logs, &read))));
        // What holds the pod's network is none of ours.
        let mut holders = own.filter(|one| name(one).is_none() && one.state.pid > 0);
        let attempt = Attempt {
            is_running,
            is_connected: holders.any(|holder| is_connected(holder.state.pid)),
            containers: containers.collect(),
        };
        attempts.insert(number, attempt);
    }
    Ok(attempts)
}

/// The container's name in the object.
fn name(of: &Inspected) -> Option<String> {
    of.config.labels.as_ref()?.get(CONTAINER).cloned()
}

fn container(of: &Inspected, logs: Logs, read: impl Fn(&str) -> String) -> Container {
    let reported = &of.state;
    let state = match reported.status.as_str() {
        running if is_running(running) => State::Running,
        "created" | "configured" | "initialized" => State::Created,
        // podman calls what ran before a reboot exited, and knows no end of it. The end of what ran for a moment may be told as
        // earlier than its start: two clocks of the kernel.
        _ if reported.finished_at < Timestamp::UNIX_EPOCH => State::Lost,
        _ => State::Ended {
            code: reported.exit_code,
            is_out_of_memory: reported.is_out_of_memory,
            at: reported.finished_at,
        },
    };
    let is_read = match state {
        State::Created => false,
        State::Running => logs == Logs::All,
        State::Ended { .. } | State::Lost => true,
    };
    let log = if is_read { read(&of.host_config.log_config.path) } else { String::new() };
    let monitor = Some(reported.conmon_pid).filter(|pid| *pid > 0 && state == State::Running);
    Container { state, monitor, log }
}

fn is_running(status: &str) -> bool {
    matches!(status, "running" | "paused" | "stopping" | "removing")
}

#[cfg(test)]
mod tests;

//! Reads podman's JSON about the pods and containers of an object.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use thiserror::Error;

/// Label whose value is the uid of the NodeContainers.
pub const UID: &str = "warren.nnf.cray.hpe.com/node-containers";
/// Label whose value is the number of the attempt.
pub const ATTEMPT: &str = "warren.nnf.cray.hpe.com/attempt";
/// Label whose value is the container's name in the NodeContainers.
pub const CONTAINER: &str = "warren.nnf.cray.hpe.com/container";

/// Why podman's output is not the output of podman 4.3 or newer.
#[derive(Debug, Error)]
pub enum AnswerError {
    #[error("cannot read podman's JSON about {subject}: use podman 4.3 or newer")]
    Unreadable {
        subject: &'static str,
        #[source]
        source: serde_json::Error,
    },
    #[error(
        "pod {0} has a NodeContainers label but no attempt number: remove it with podman pod rm {0}"
    )]
    NoAttempt(String),
}

/// All containers, files and keys of an object on this rabbit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Whether the object's directory exists, even if its files are incomplete.
    pub has_directory: bool,
    /// Whether the configuration files exist.
    pub has_files: bool,
    /// Whether the MPI keys exist.
    pub has_keys: bool,
    /// Numbers of the attempts whose shared directories exist.
    pub volumes: BTreeSet<i64>,
    /// Attempts by number, from 1.
    pub attempts: BTreeMap<i64, ObservedAttempt>,
}

/// The pod of one attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedAttempt {
    /// Whether any process of the pod runs, its infra container included.
    pub is_running: bool,
    /// Whether the pod is connected to the MPI network of its run.
    pub is_connected: bool,
    /// The object's containers by their names in the object.
    pub containers: BTreeMap<String, ObservedContainer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedContainer {
    pub state: ContainerState,
    /// Process id of the conmon (podman's monitor process) that records the container's end; `None`
    /// unless the container runs.
    pub monitor: Option<i32>,
    /// The end of the container's log; empty if the log was not read.
    pub log: String,
}

/// Which logs to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logs {
    /// Logs of ended containers.
    OfEnded,
    /// Logs of running containers too.
    All,
}

/// State of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerState {
    /// Not started yet.
    Created,
    Running,
    Ended {
        code: i32,
        /// Whether the kernel killed the container for using more memory than its limit.
        is_out_of_memory: bool,
        /// Time of the end.
        at: Timestamp,
    },
    /// The container ran when the rabbit stopped, so its exit code is unknown.
    Lost,
}

impl Observed {
    /// Returns the ids of the conmon processes; the end of each requires another pass.
    pub(crate) fn monitors(&self) -> Vec<i32> {
        let containers = self.attempts.values().flat_map(|attempt| attempt.containers.values());
        containers.filter_map(|container| container.monitor).collect()
    }
}

/// A pod, from `podman pod ps --format json`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListedPod {
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

/// A container, from `podman container inspect`.
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

/// Parses the list of pods; podman prints `null` for an empty one.
pub(super) fn parse_pods(text: &[u8]) -> Result<Vec<ListedPod>, AnswerError> {
    let pods: Result<Option<Vec<ListedPod>>, _> = serde_json::from_slice(text);
    pods.map(Option::unwrap_or_default)
        .map_err(|source| AnswerError::Unreadable { subject: "pods", source })
}

/// Parses the output of `podman container inspect`.
pub(super) fn parse_inspected(text: &[u8]) -> Result<Vec<Inspected>, AnswerError> {
    serde_json::from_slice(text)
        .map_err(|source| AnswerError::Unreadable { subject: "containers", source })
}

/// Returns the ids of all containers in these pods.
pub(super) fn container_ids(pods: &[ListedPod]) -> Vec<String> {
    pods.iter()
        .flat_map(|pod| pod.containers.iter().flatten())
        .map(|member| member.id.clone())
        .collect()
}

/// Assigns the inspected containers to their pods, by attempt. `read` returns the end of a log file; `is_connected`
/// returns whether a process is in the network of an MPI run.
pub(super) fn by_attempt(
    pods: &[ListedPod],
    inspected: &[Inspected],
    logs: Logs,
    read: impl Fn(&str) -> String,
    is_connected: impl Fn(i32) -> bool,
) -> Result<BTreeMap<i64, ObservedAttempt>, AnswerError> {
    let mut attempts = BTreeMap::new();
    for pod in pods {
        let number = pod.labels.get(ATTEMPT).and_then(|text| text.parse().ok());
        let number: i64 = number.ok_or_else(|| AnswerError::NoAttempt(pod.name.clone()))?;
        let members: BTreeSet<&str> =
            pod.containers.iter().flatten().map(|member| member.id.as_str()).collect();
        let is_running = pod.containers.iter().flatten().any(|member| is_running(&member.status));
        let own = inspected.iter().filter(|container| members.contains(container.id.as_str()));
        let containers = own.clone().filter_map(|inspected| {
            Some((container_name(inspected)?, observe_container(inspected, logs, &read)))
        });
        // The infra container, which holds the pod's network, has no label with a name.
        let mut holders =
            own.filter(|inspected| container_name(inspected).is_none() && inspected.state.pid > 0);
        let attempt = ObservedAttempt {
            is_running,
            is_connected: holders.any(|holder| is_connected(holder.state.pid)),
            containers: containers.collect(),
        };
        attempts.insert(number, attempt);
    }
    Ok(attempts)
}

/// Returns the container's name in the object; `None` for a pod's infra container.
fn container_name(inspected: &Inspected) -> Option<String> {
    inspected.config.labels.as_ref()?.get(CONTAINER).cloned()
}

fn observe_container(
    inspected: &Inspected,
    logs: Logs,
    read: impl Fn(&str) -> String,
) -> ObservedContainer {
    let reported = &inspected.state;
    let state = match reported.status.as_str() {
        running if is_running(running) => ContainerState::Running,
        "created" | "configured" | "initialized" => ContainerState::Created,
        // After a reboot podman reports "exited" without an end time, which reads as a time before 1970. A comparison
        // with the start time would be wrong: the end of a container that ran only briefly may lie just before its
        // start, because podman takes the two times from different clocks.
        _ if reported.finished_at < Timestamp::UNIX_EPOCH => ContainerState::Lost,
        _ => ContainerState::Ended {
            code: reported.exit_code,
            is_out_of_memory: reported.is_out_of_memory,
            at: reported.finished_at,
        },
    };
    let is_read = match state {
        ContainerState::Created => false,
        ContainerState::Running => logs == Logs::All,
        ContainerState::Ended { .. } | ContainerState::Lost => true,
    };
    let log = if is_read { read(&inspected.host_config.log_config.path) } else { String::new() };
    let monitor =
        Some(reported.conmon_pid).filter(|pid| *pid > 0 && state == ContainerState::Running);
    ObservedContainer { state, monitor, log }
}

fn is_running(status: &str) -> bool {
    matches!(status, "running" | "paused" | "stopping" | "removing")
}

#[cfg(test)]
mod tests;

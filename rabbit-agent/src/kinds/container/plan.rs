//! Plans the next steps for an object's containers. Pure; the caller passes the time.

use k8s_openapi::jiff::Timestamp;
use storage::desired::ObjectUid;

use super::{
    desired::Desired,
    observed::{self, ContainerState, Observed},
    phase::{Phase, Record, deadline, phase},
    step::{Attempt, Container, ContainerName, Files, Keys, Network, Pod, PodName, Step, Volumes},
};

/// Returns the steps to do next; empty if the containers are as desired, or must wait.
#[must_use]
pub fn plan(
    desired: &Desired,
    observed: &Observed,
    record: &Record,
    may_start: bool,
    now: Timestamp,
) -> Vec<Step> {
    let stop_all = |keep: Option<i64>| {
        let running = observed.attempts.iter().filter(move |(_, attempt)| attempt.is_running);
        let running = running.filter(move |(number, _)| Some(**number) != keep);
        running.map(|(number, _)| Step::Stop(attempt(desired, *number))).collect::<Vec<_>>()
    };
    let pull_seconds =
        deadline(desired, record).map(|deadline| deadline.duration_since(now).as_secs().max(1));
    match phase(desired, observed, record, now) {
        Phase::Over(_) => {
            let keys = observed.has_keys.then_some(Step::RemoveKeys(desired.uid));
            stop_all(None)
                .into_iter()
                .chain(keys)
                .chain(remove_old_volumes(desired, observed, None))
                .collect()
        }
        Phase::Late => Vec::new(),
        Phase::Attempt(number) => {
            let mut steps = stop_all(Some(number));
            steps.extend(remove_old_volumes(desired, observed, Some(number)));
            if may_start {
                steps.extend(advance(desired, observed, number, pull_seconds));
            }
            steps
        }
        Phase::Next(number, begins) => {
            let mut steps = stop_all(None);
            steps.extend(remove_old_volumes(desired, observed, Some(number)));
            if may_start && begins.is_none_or(|begins| begins <= now) {
                steps.extend(write_files(desired, observed));
                steps.extend(write_keys(desired, observed));
                steps.extend(make_volumes(desired, observed, number));
                steps.push(Step::MakePod(pod(desired, number)));
                steps.extend(make_missing_containers(desired, None, number, pull_seconds));
            }
            steps
        }
    }
}

/// Returns the steps that remove all containers and all files of an object.
#[must_use]
pub fn removal(uid: ObjectUid, grace: i64, observed: &Observed) -> Vec<Step> {
    let attempts = observed.attempts.keys();
    let mut steps: Vec<Step> = attempts
        .map(|number| Step::Remove(Attempt { pod: PodName { uid, attempt: *number }, grace }))
        .collect();
    if observed.has_directory {
        steps.push(Step::RemoveFiles(uid));
    }
    steps
}

/// Plans the steps that create the missing parts of an attempt. If no part is missing, plans the start
/// of the next containers.
fn advance(
    desired: &Desired,
    observed: &Observed,
    number: i64,
    pull_seconds: Option<i64>,
) -> Vec<Step> {
    let attempt = &observed.attempts[&number];
    let mut steps: Vec<Step> =
        make_missing_containers(desired, Some(attempt), number, pull_seconds).collect();
    if !steps.is_empty() {
        let before = [
            write_files(desired, observed),
            write_keys(desired, observed),
            make_volumes(desired, observed, number),
        ];
        steps.splice(0..0, before.into_iter().flatten());
        return steps;
    }
    if let Some(network) = network(desired, number).filter(|_| !attempt.is_connected) {
        return vec![Step::Connect(Box::new(network))];
    }
    let state = |name: &str| attempt.containers[name].state;
    let start = |name: &str| Step::Start(container_name(desired, number, name));
    let mut firsts = desired.spec.init_containers.iter().map(|container| container.name.as_str());
    if let Some(first) = firsts.find(|name| !matches!(state(name), ContainerState::Ended { .. })) {
        return if state(first) == ContainerState::Created {
            vec![start(first)]
        } else {
            Vec::new()
        };
    }
    let mains = desired.spec.containers.iter().map(|container| container.name.as_str());
    mains.filter(|name| state(name) == ContainerState::Created).map(start).collect()
}

fn write_files(desired: &Desired, observed: &Observed) -> Option<Step> {
    let source = desired.spec.files.clone().filter(|_| !observed.has_files)?;
    let files = desired.files.clone();
    Some(Step::WriteFiles(Box::new(Files { uid: desired.uid, source, files })))
}

fn write_keys(desired: &Desired, observed: &Observed) -> Option<Step> {
    let source = desired.spec.keys.clone().filter(|_| !observed.has_keys)?;
    let (user, group) = (desired.spec.user_id, desired.spec.group_id);
    let files = desired.keys.clone();
    Some(Step::WriteKeys(Box::new(Keys { uid: desired.uid, user, group, source, files })))
}

fn make_volumes(desired: &Desired, observed: &Observed, number: i64) -> Option<Step> {
    let names = desired.spec.empty_dirs.clone();
    let are_missing = !names.is_empty() && !observed.volumes.contains(&number);
    let (user, group) = (desired.spec.user_id, desired.spec.group_id);
    let pod = pod_name(desired, number);
    are_missing.then(|| Step::MakeVolumes(Box::new(Volumes { pod, user, group, names })))
}

/// Plans the removal of the shared directories of ended attempts: of every attempt except `current` that
/// has no running process.
fn remove_old_volumes(
    desired: &Desired,
    observed: &Observed,
    current: Option<i64>,
) -> impl Iterator<Item = Step> {
    let runs =
        |number: &i64| observed.attempts.get(number).is_some_and(|attempt| attempt.is_running);
    let over =
        observed.volumes.iter().filter(move |&number| Some(*number) != current && !runs(number));
    over.map(|number| Step::RemoveVolumes(pod_name(desired, *number)))
}

fn network(desired: &Desired, number: i64) -> Option<Network> {
    let (port, place) = desired.network?;
    let rabbits = desired.spec.network.as_ref()?.rabbits.clone();
    Some(Network { pod: pod_name(desired, number), port, place, rabbits })
}

/// Plans the containers that the attempt's pod lacks.
fn make_missing_containers(
    desired: &Desired,
    attempt: Option<&observed::ObservedAttempt>,
    number: i64,
    pull_seconds: Option<i64>,
) -> impl Iterator<Item = Step> {
    let spec = &desired.spec;
    let all = spec.init_containers.iter().chain(&spec.containers);
    let is_there =
        move |name: &str| attempt.is_some_and(|attempt| attempt.containers.contains_key(name));
    all.filter(move |container| !is_there(&container.name)).map(move |container| {
        Step::Make(Box::new(Container {
            name: container_name(desired, number, &container.name),
            user: spec.user_id,
            group: spec.group_id,
            storages: spec.storages.clone(),
            global_lustre: spec.global_lustre.clone(),
            directories: spec.directories.clone(),
            packages: desired.packages.clone(),
            has_keys: spec.keys.is_some(),
            pull_seconds,
            spec: container.clone(),
        }))
    })
}

fn pod(desired: &Desired, number: i64) -> Pod {
    let spec = &desired.spec;
    Pod {
        name: pod_name(desired, number),
        hostname: spec.hostname.clone(),
        hosts: spec.hosts.clone(),
        ports: desired.ports.clone(),
        has_network: spec.network.is_some(),
        shares_processes: spec.share_process_namespace,
        memory: spec
            .containers
            .iter()
            .map(|container| container.memory_bytes)
            .reduce(sum_of_limits)
            .flatten(),
    }
}

/// Returns the sum of two memory limits; `None` if either is unlimited.
fn sum_of_limits(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    Some(one?.saturating_add(other?))
}

fn container_name(desired: &Desired, number: i64, container: &str) -> ContainerName {
    ContainerName { pod: pod_name(desired, number), container: container.to_owned() }
}

fn pod_name(desired: &Desired, number: i64) -> PodName {
    PodName { uid: desired.uid, attempt: number }
}

fn attempt(desired: &Desired, number: i64) -> Attempt {
    Attempt { pod: pod_name(desired, number), grace: desired.grace() }
}

#[cfg(test)]
pub(crate) mod tests;

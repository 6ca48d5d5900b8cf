//! What is to be changed. Pure; the caller passes the time.

use k8s_openapi::jiff::Timestamp;
use storage::desired::ObjectUid;

use super::{
    desired::Desired,
    observed::{self, Observed, State},
    phase::{Phase, Record, due, phase},
    step::{Attempt, Container, Files, Keys, Name, Network, Pod, PodName, Step, Volumes},
};

/// The steps that bring containers on their way; none when they are where they are to be, or only time brings them on.
#[must_use]
pub fn plan(
    desired: &Desired,
    observed: &Observed,
    record: &Record,
    may_start: bool,
    now: Timestamp,
) -> Vec<Step> {
    let stopped = |except: Option<i64>| {
        let running = observed.attempts.iter().filter(move |(_, attempt)| attempt.is_running);
        let running = running.filter(move |(number, _)| Some(**number) != except);
        running.map(|(number, _)| Step::Stop(attempt(desired, *number))).collect::<Vec<_>>()
    };
    let within = due(desired, record).map(|due| due.duration_since(now).as_secs().max(1));
    match phase(desired, observed, record, now) {
        Phase::Over(_) => {
            let keys = observed.has_keys.then_some(Step::RemoveKeys(desired.uid));
            stopped(None).into_iter().chain(keys).chain(left(desired, observed, None)).collect()
        }
        Phase::Late => Vec::new(),
        Phase::Attempt(number) => {
            let mut steps = stopped(Some(number));
            steps.extend(left(desired, observed, Some(number)));
            if may_start {
                steps.extend(going(desired, observed, number, within));
            }
            steps
        }
        Phase::Next(number, begins) => {
            let mut steps = stopped(None);
            steps.extend(left(desired, observed, Some(number)));
            if may_start && begins.is_none_or(|begins| begins <= now) {
                steps.extend(files(desired, observed));
                steps.extend(keys(desired, observed));
                steps.extend(volumes(desired, observed, number));
                steps.push(Step::MakePod(pod(desired, number)));
                steps.extend(missing(desired, None, number, within));
            }
            steps
        }
    }
}

/// The steps that remove everything of an object.
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

/// What an attempt lacks; and when it lacks nothing, what of it starts next.
fn going(desired: &Desired, observed: &Observed, number: i64, within: Option<i64>) -> Vec<Step> {
    let attempt = &observed.attempts[&number];
    let mut steps: Vec<Step> = missing(desired, Some(attempt), number, within).collect();
    if !steps.is_empty() {
        let before =
            [files(desired, observed), keys(desired, observed), volumes(desired, observed, number)];
        steps.splice(0..0, before.into_iter().flatten());
        return steps;
    }
    if let Some(network) = network(desired, number).filter(|_| !attempt.is_connected) {
        return vec![Step::Connect(Box::new(network))];
    }
    let state = |name: &str| attempt.containers[name].state;
    let start = |name: &str| Step::Start(place(desired, number, name));
    let mut firsts = desired.spec.init_containers.iter().map(|one| one.name.as_str());
    if let Some(first) = firsts.find(|name| !matches!(state(name), State::Ended { .. })) {
        return if state(first) == State::Created { vec![start(first)] } else { Vec::new() };
    }
    let mains = desired.spec.containers.iter().map(|one| one.name.as_str());
    mains.filter(|name| state(name) == State::Created).map(start).collect()
}

fn files(desired: &Desired, observed: &Observed) -> Option<Step> {
    let of = desired.spec.files.clone().filter(|_| !observed.has_files)?;
    let files = desired.files.clone();
    Some(Step::WriteFiles(Box::new(Files { uid: desired.uid, of, files })))
}

fn keys(desired: &Desired, observed: &Observed) -> Option<Step> {
    let of = desired.spec.keys.clone().filter(|_| !observed.has_keys)?;
    let (user, group) = (desired.spec.user_id, desired.spec.group_id);
    let files = desired.keys.clone();
    Some(Step::WriteKeys(Box::new(Keys { uid: desired.uid, user, group, of, files })))
}

fn volumes(desired: &Desired, observed: &Observed, number: i64) -> Option<Step> {
    let names = desired.spec.empty_dirs.clone();
    let are_missing = !names.is_empty() && !observed.volumes.contains(&number);
    let (user, group) = (desired.spec.user_id, desired.spec.group_id);
    let pod = pod_name(desired, number);
    are_missing.then(|| Step::MakeVolumes(Box::new(Volumes { pod, user, group, names })))
}

/// Shared directories of attempts that are over, and of which nothing runs any more.
fn left(desired: &Desired, observed: &Observed, going: Option<i64>) -> impl Iterator<Item = Step> {
    let runs = |number: &i64| observed.attempts.get(number).is_some_and(|one| one.is_running);
    let over =
        observed.volumes.iter().filter(move |&number| Some(*number) != going && !runs(number));
    over.map(|number| Step::RemoveVolumes(pod_name(desired, *number)))
}

fn network(desired: &Desired, number: i64) -> Option<Network> {
    let (port, place) = desired.network?;
    let rabbits = desired.spec.network.as_ref()?.rabbits.clone();
    Some(Network { pod: pod_name(desired, number), port, place, rabbits })
}

/// Containers that are not made yet.
fn missing(
    desired: &Desired,
    attempt: Option<&observed::Attempt>,
    number: i64,
    within: Option<i64>,
) -> impl Iterator<Item = Step> {
    let spec = &desired.spec;
    let all = spec.init_containers.iter().chain(&spec.containers);
    let is_there = move |name: &str| attempt.is_some_and(|one| one.containers.contains_key(name));
    all.filter(move |one| !is_there(&one.name)).map(move |one| {
        Step::Make(Box::new(Container {
            name: place(desired, number, &one.name),
            user: spec.user_id,
            group: spec.group_id,
            storages: spec.storages.clone(),
            global_lustre: spec.global_lustre.clone(),
            packages: desired.packages.clone(),
            has_keys: spec.keys.is_some(),
            within,
            what: one.clone(),
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
        memory: spec.containers.iter().map(|one| one.memory_bytes).reduce(both).flatten(),
    }
}

/// What two containers may use together; `None` where one of them may use any amount.
fn both(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    Some(one?.saturating_add(other?))
}

fn place(desired: &Desired, number: i64, container: &str) -> Name {
    Name { pod: pod_name(desired, number), container: container.to_owned() }
}

fn pod_name(desired: &Desired, number: i64) -> PodName {
    PodName { uid: desired.uid, attempt: number }
}

fn attempt(desired: &Desired, number: i64) -> Attempt {
    Attempt { pod: pod_name(desired, number), grace: desired.grace() }
}

#[cfg(test)]
pub(crate) mod tests;

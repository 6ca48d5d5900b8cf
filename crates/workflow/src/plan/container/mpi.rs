//! MPI: starts workers on all rabbits, and a launcher once every worker is ready.
//!
//! Each attempt has a ConfigMap with the attempt's number; the highest number is that of the current attempt. The
//! ConfigMap owns the Secret with the keys by which launcher and workers authenticate, so that Kubernetes deletes
//! both together. A suspended run is not resumed but created again as the next attempt with new keys, whether
//! Kubernetes or the rabbits' agents run the containers.

use api::{
    NnfContainerProfileData,
    nnf_container_profile::{CleanPodPolicy, NnfMpiRunPolicy, NnfMpiSpec},
};
use containers::{Attempt, Run, names, objects, on_rabbit, outcome::State};
use directive::Container;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{
    create_network,
    ended::{failure_text, wait_for_end},
    packages, ports,
    run::Parts,
    storages,
    suspend::{is_suspended, remove_suspended, stay_suspended, suspend},
    volumes, wait_until_ready,
};
use crate::{
    change::Change,
    names::service_name,
    objects::{
        part::{Part, all_parts, of_host},
        view::{Containers as Objects, View},
    },
    progress::{Outcome, Progress, internal_error, user_error},
    report::{is_completed, is_failed},
};

/// Creates the workers once their storage is mounted, and the launcher once all workers are ready.
pub(super) fn start(
    view: &View<'_>,
    index: usize,
    container: &Container,
    mpi: &NnfMpiSpec,
    now: Timestamp,
) -> Progress {
    let existing = &view.directives[index].containers;
    let policy = mpi.policy();
    if let Some(launcher) = launcher(view, index).filter(|launcher| is_over(*launcher)) {
        return wait_until_ready(existing, &[launcher], now).with(clean_up(view, index, &policy));
    }
    if is_suspended(view) {
        return suspend(existing);
    }
    if launcher(view, index).is_none()
        && let Some(profile) = &existing.profile
        && let Some(lost) = lost_worker(existing, profile.data(), now)
    {
        return lost.with(clean_up(view, index, &policy));
    }
    match Parts::new(view, index, container) {
        Ok(parts) => {
            let mounted = |run: &Run<'_>| storages::wait_for_mounts(view, container, run);
            create_attempt(view, &parts, mounted, now)
        }
        Err(error) => Progress::failed(error),
    }
}

/// Creates the objects of an attempt, one after the other. `mounted` waits for the mounts that the containers need.
pub(super) fn create_attempt(
    view: &View<'_>,
    parts: &Parts<'_>,
    mounted: impl FnOnce(&Run<'_>) -> Progress,
    now: Timestamp,
) -> Progress {
    let index = parts.index;
    let existing = &view.directives[index].containers;
    let attempt = match parts.attempt(attempt_to_run(existing)) {
        Ok(attempt) => attempt,
        Err(error) => return Progress::failed(error),
    };
    let ported = ports::take(view, parts, now);
    if ported.progress.outcome != Outcome::Done {
        return ported.progress;
    }
    let run = parts.run(&ported.ports, Some(&attempt));
    let files = create_files(view, parts, &run, &attempt);
    if !existing.attempts.contains_key(&attempt.number) {
        return files;
    }
    files
        .and(remove_earlier(existing, attempt.number))
        .and(storages::check_enabled(view, existing, &run))
        .and(mounted(&run))
        .and(packages::bring(existing, parts, now))
        .then(|| volumes::create(existing, parts))
        .then(|| create_workers(existing, parts, &run))
        .then(|| match launcher(view, index) {
            Some(launcher) => wait_until_ready(existing, &[launcher], now),
            None => workers_ready(view, index, run.placement.len(), now).then(|| {
                Progress::default()
                    .with(parts.create(|| objects::launcher(&run), || on_rabbit::launcher(&run)))
            }),
        })
}

/// Creates the missing workers.
fn create_workers(existing: &Objects, parts: &Parts<'_>, run: &Run<'_>) -> Progress {
    let is_missing =
        |place: &usize| of_host(existing, &names::worker(run.service, *place)).is_none();
    let missing = (0..run.placement.len()).filter(is_missing);
    Progress::default().with(missing.filter_map(|place| {
        parts.create(|| objects::job(run, place), || on_rabbit::worker(run, place))
    }))
}

/// Creates the objects that pods need before they start: Service, NetworkPolicy, ConfigMap, and then the Secret,
/// which the ConfigMap owns.
fn create_files(view: &View<'_>, parts: &Parts<'_>, run: &Run<'_>, attempt: &Attempt) -> Progress {
    let existing = &view.directives[parts.index].containers;
    let config_map = existing.attempts.get(&attempt.number);
    let files = config_map.is_none().then(|| Change::create(&objects::config_map(run)));
    let is_made = launcher(view, parts.index).is_some() || existing.keys.contains(&attempt.keys);
    let keys = config_map.filter(|_| !is_made).and_then(|owner| objects::keys(run, owner));
    let keys = keys.map(|secret| Change::create_keys(&secret));
    Progress::default()
        .with(create_network(existing, parts, run))
        .with(files.into_iter().chain(keys))
}

/// Returns an error if a worker of the last attempt has ended: no launcher can start without this worker, and an
/// ended worker does not start again.
pub(super) fn lost_worker(
    existing: &Objects,
    profile: &NnfContainerProfileData,
    now: Timestamp,
) -> Option<Progress> {
    let last = last_attempt(existing)?;
    let workers: Vec<Part<'_>> =
        all_parts(existing).filter(|worker| worker.attempt() == last).collect();
    let in_state = |state| workers.iter().copied().find(|worker| worker.state() == state);
    if let Some(failed) = in_state(State::Failed) {
        return Some(Progress::failed(user_error(failure_text(existing, failed, profile))));
    }
    if let Some(ended) = in_state(State::Succeeded) {
        let rabbit = ended.rabbit();
        return Some(Progress::failed(user_error(format!(
            "worker on {rabbit} ended before its launcher"
        ))));
    }
    let is_lost = |state| matches!(state, State::TooLate | State::Unprepared);
    workers
        .iter()
        .any(|worker| is_lost(worker.state()))
        .then(|| wait_until_ready(existing, &workers, now))
}

/// Waits until every worker is ready.
fn workers_ready(view: &View<'_>, index: usize, count: usize, now: Timestamp) -> Progress {
    let existing = &view.directives[index].containers;
    let service = service_name(&view.workflow, index);
    let names = (0..count).map(|place| names::worker(&service, place));
    let workers: Vec<Part<'_>> = names.filter_map(|name| of_host(existing, &name)).collect();
    wait_until_ready(existing, &workers, now)
}

/// Waits until the launcher has ended, and reports the result.
pub(super) fn wait_for_launcher(
    view: &View<'_>,
    index: usize,
    profile: &NnfContainerProfileData,
    mpi: &NnfMpiSpec,
    now: Timestamp,
) -> Progress {
    let existing = &view.directives[index].containers;
    if is_completed(view, index, "PostRun") {
        return keep(view, index, mpi, now);
    }
    let (policy, is_reported) = (mpi.policy(), is_failed(view, index, "PostRun"));
    let Some(launcher) = launcher(view, index) else {
        if is_reported {
            // The policy removed the launcher after the status said how PostRun ended; the status keeps the result.
            let cleaning = apply_policy(view, index, &policy, now);
            return Progress::from(Outcome::Working).with(cleaning);
        }
        let is_gone = is_completed(view, index, "PreRun");
        let gone = "the launcher was deleted, so its result is not known";
        return if is_gone { Progress::failed(internal_error(gone)) } else { Progress::default() };
    };
    let mut cleaned = clean_up(view, index, &policy);
    match launcher.state() {
        State::Failed | State::TooLate | State::Unprepared => {
            let more =
                if is_reported { apply_policy(view, index, &policy, now) } else { Vec::new() };
            let more: Vec<_> =
                more.into_iter().filter(|change| !cleaned.contains(change)).collect();
            cleaned.extend(more);
            Progress::failed(user_error(failure_text(existing, launcher, profile))).with(cleaned)
        }
        State::Succeeded => Progress::default().with(cleaned),
        State::Suspended => Progress::failed(stay_suspended()),
        State::Starting | State::Ready => wait_for_end(existing, &[launcher], profile, now),
    }
}

/// After PostRun has completed, keeps a run's objects until Teardown. Exception: the run policy of the container
/// profile may ask for an earlier removal.
pub(super) fn keep(view: &View<'_>, index: usize, mpi: &NnfMpiSpec, now: Timestamp) -> Progress {
    if !is_completed(view, index, "PostRun") {
        return Progress::default();
    }
    Progress::default().with(apply_policy(view, index, &mpi.policy(), now))
}

/// Once the status says how PostRun ended, removes the objects that the run policy of the container profile names.
fn apply_policy(
    view: &View<'_>,
    index: usize,
    policy: &NnfMpiRunPolicy,
    now: Timestamp,
) -> Vec<Change> {
    let existing = &view.directives[index].containers;
    let launcher = launcher(view, index);
    let ttl = policy.ttl_seconds_after_finished.and_then(|seconds| i32::try_from(seconds).ok());
    let is_due = || expires(view, index, policy).is_some_and(|at| at <= now);
    let all = || all_parts(existing).filter_map(Part::remove).collect();
    match (launcher, ttl) {
        _ if policy.clean_pod_policy == Some(CleanPodPolicy::All) => all(),
        // Kubernetes applies the TTL of a Job itself.
        (Some(Part::Job(launcher)), Some(ttl)) => {
            let mut after = launcher.clone();
            after.spec.get_or_insert_default().ttl_seconds_after_finished = Some(ttl);
            Change::patch(launcher, &after).into_iter().collect()
        }
        (None, Some(_)) => all(),
        (Some(Part::Agent(_)), Some(_)) if is_due() => all(),
        (_, None) | (Some(Part::Agent(_)), Some(_)) => Vec::new(),
    }
}

/// Returns when the time to live of an ended launcher is over, if an agent ran the launcher. `None` for Jobs:
/// Kubernetes applies their TTL itself.
pub(super) fn expires(
    view: &View<'_>,
    index: usize,
    policy: &NnfMpiRunPolicy,
) -> Option<Timestamp> {
    let seconds = policy.ttl_seconds_after_finished?;
    let end = launcher(view, index)?.ended_on_rabbit()?;
    end.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Removes the Secret with the keys, and the workers that the policy names, after the launcher has ended. Failed
/// workers stay, for their logs.
pub(super) fn clean_up(view: &View<'_>, index: usize, policy: &NnfMpiRunPolicy) -> Vec<Change> {
    let existing = &view.directives[index].containers;
    let keys = existing.attempts.values().filter_map(|config_map| Change::delete(&**config_map));
    let launcher = names::launcher(&service_name(&view.workflow, index));
    let workers = all_parts(existing).filter(|part| part.host() != launcher);
    let workers = workers.filter_map(|worker| match &policy.clean_pod_policy {
        Some(CleanPodPolicy::None) => None,
        Some(CleanPodPolicy::All) => worker.remove(),
        Some(CleanPodPolicy::Running | CleanPodPolicy::Other(_)) | None => {
            if worker.state().is_ended() { None } else { worker.stop() }
        }
    });
    keys.chain(workers).collect()
}

/// Removes the objects of earlier attempts.
fn remove_earlier(existing: &Objects, number: u32) -> Progress {
    let files = existing
        .attempts
        .range(..number)
        .filter_map(|(_, config_map)| Change::delete(&**config_map));
    remove_suspended(all_parts(existing).filter(|part| part.attempt() < number)).with(files)
}

/// Returns the number of the attempt to run: the last attempt or, if the last attempt was suspended, the next one.
fn attempt_to_run(existing: &Objects) -> u32 {
    let Some(last) = last_attempt(existing) else { return 1 };
    let mut own = all_parts(existing).filter(|part| part.attempt() == last);
    last + u32::from(own.any(Part::is_stopped))
}

/// Returns the number of the last attempt.
fn last_attempt(existing: &Objects) -> Option<u32> {
    existing.attempts.keys().copied().chain(all_parts(existing).map(Part::attempt)).max()
}

pub(super) fn launcher<'a>(view: &'a View<'_>, index: usize) -> Option<Part<'a>> {
    let name = names::launcher(&service_name(&view.workflow, index));
    of_host(&view.directives[index].containers, &name)
}

/// Returns true if the launcher has succeeded, failed, or passed its deadline.
fn is_over(launcher: Part<'_>) -> bool {
    matches!(launcher.state(), State::Succeeded | State::Failed | State::TooLate)
}

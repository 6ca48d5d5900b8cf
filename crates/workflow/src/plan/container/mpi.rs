//! MPI: workers on all rabbits, and a launcher once every one of them answers.
//!
//! A ConfigMap says which attempt it is: the last one counts. It owns the Secret with the keys of the attempt, so that they go
//! with it. What was suspended is not resumed but made anew, as the next attempt: nobody who had the keys before has these.

use std::sync::Arc;

use api::{
    NnfContainerProfileData,
    names::label,
    nnf_container_profile::{CleanPodPolicy, NnfMpiRunPolicy, NnfMpiSpec},
};
use containers::{
    Attempt, Run, names, objects,
    outcome::{State, state},
};
use directive::Container;
use k8s_openapi::{api::batch::v1::Job, jiff::Timestamp};
use kube::ResourceExt;

use super::{awaited, ports, rabbit_of, ready, run::Parts, storages, why};
use crate::{
    change::Change,
    names::SUSPENDED,
    progress::{Outcome, Progress, internal, user},
    report::{is_completed, is_failed},
    view::{Containers as Objects, View},
};

/// Makes the workers once their storage is mounted, and the launcher once they are ready.
pub(super) fn start(
    view: &View<'_>,
    index: usize,
    container: &Container,
    mpi: &NnfMpiSpec,
    now: Timestamp,
) -> Progress {
    let of = &view.directives[index].containers;
    let policy = mpi.policy();
    if let Some(launcher) = launcher(view, of).filter(|job| is_over(job)) {
        return ready(of, &[launcher]).with(cleaned(of, launcher, &policy));
    }
    if view.workflow.annotations().get(SUSPENDED).is_some_and(|value| value == "true") {
        return suspended(of);
    }
    match Parts::of(view, index, container) {
        Ok(parts) => made(view, index, container, &parts, now),
        Err(error) => Progress::failed(error),
    }
}

/// Makes what an attempt needs, one thing after the other.
fn made(
    view: &View<'_>,
    index: usize,
    container: &Container,
    parts: &Parts<'_>,
    now: Timestamp,
) -> Progress {
    let of = &view.directives[index].containers;
    let attempt = match parts.attempt(number(of)) {
        Ok(attempt) => attempt,
        Err(error) => return Progress::failed(error),
    };
    let ported = ports::taken(view, parts, now);
    if ported.progress.outcome != Outcome::Done {
        return ported.progress;
    }
    let run = parts.run(&ported.ports, Some(&attempt));
    let files = files(view, of, &run, &attempt);
    if !of.attempts.contains_key(&attempt.number) {
        return files;
    }
    files
        .and(earlier(of, attempt.number))
        .and(storages::mounted(view, container, run.rabbits()))
        .then(|| workers(of, &run))
        .then(|| match launcher(view, of) {
            Some(launcher) => ready(of, &[launcher]),
            None => workers_ready(view, index, run.placement.len()).then(|| {
                Progress::default().with(objects::launcher(&run).map(|it| Change::create(&it)))
            }),
        })
}

/// Makes the workers that are not there.
fn workers(of: &Objects, run: &Run<'_>) -> Progress {
    let all = (0..run.placement.len()).filter_map(|place| objects::job(run, place));
    let missing = all.filter(|job| !of.jobs.contains_key(&job.name_any()));
    Progress::default().with(missing.map(|job| Change::create(&job)))
}

/// What pods need before they start: names, who reaches them, files, and keys once there is the ConfigMap that owns them.
fn files(view: &View<'_>, of: &Objects, run: &Run<'_>, attempt: &Attempt) -> Progress {
    let service = of.service.is_none().then(|| Change::create(&objects::service(run)));
    let policy = objects::network_policy(run).filter(|_| of.network_policy.is_none());
    let policy = policy.map(|policy| Change::create(&policy));
    let config_map = of.attempts.get(&attempt.number);
    let files = config_map.is_none().then(|| Change::create(&objects::config_map(run)));
    let is_made = launcher(view, of).is_some() || of.keys.contains(&attempt.keys);
    let keys = config_map.filter(|_| !is_made).and_then(|owner| objects::keys(run, owner));
    let keys = keys.map(|secret| Change::keys(&secret));
    Progress::default().with([service, policy, files, keys].into_iter().flatten())
}

/// Whether every worker answers. One that has ended answers no more.
fn workers_ready(view: &View<'_>, index: usize, count: usize) -> Progress {
    let of = &view.directives[index].containers;
    let names = (0..count).map(|place| names::worker(&view.workflow.name_any(), place));
    let workers: Vec<&Job> = names.filter_map(|name| Some(&**of.jobs.get(&name)?)).collect();
    if let Some(failed) = workers.iter().find(|job| state(job) == State::Failed)
        && let Some(profile) = &of.profile
    {
        return Progress::failed(user(why(of, failed, profile.data())));
    }
    if let Some(ended) = workers.iter().find(|job| state(job) == State::Succeeded) {
        let rabbit = rabbit_of(ended);
        return Progress::failed(user(format!("worker on {rabbit} ended before its launcher")));
    }
    ready(of, &workers)
}

/// Waits until the launcher has ended, and tells how.
pub(super) fn end(
    view: &View<'_>,
    index: usize,
    profile: &NnfContainerProfileData,
    mpi: &NnfMpiSpec,
    now: Timestamp,
) -> Progress {
    let of = &view.directives[index].containers;
    if is_completed(view, index, "PostRun") {
        return kept(view, index, mpi);
    }
    let (policy, is_told) = (mpi.policy(), is_failed(view, index, "PostRun"));
    let Some(launcher) = launcher(view, of) else {
        if is_told {
            // It went by the policy, and what was told of it stays.
            return Progress { outcome: Outcome::Working, changes: ended(view, of, &policy) };
        }
        let is_gone = is_completed(view, index, "PreRun");
        let gone = "the launcher's Job is gone: how it ended is not known";
        return if is_gone { Progress::failed(internal(gone)) } else { Progress::default() };
    };
    let mut cleaned = cleaned(of, launcher, &policy);
    match state(launcher) {
        State::Failed | State::TooLate => {
            let more = if is_told { ended(view, of, &policy) } else { Vec::new() };
            let more: Vec<_> = more.into_iter().filter(|one| !cleaned.contains(one)).collect();
            cleaned.extend(more);
            Progress::failed(user(why(of, launcher, profile))).with(cleaned)
        }
        State::Succeeded => Progress::default().with(cleaned),
        State::Suspended => Progress::failed(user(
            "containers are suspended: they are resumed in PreRun only, so go on to Teardown",
        )),
        State::Starting | State::Ready => awaited(&[launcher], profile, now),
    }
}

/// What stays of a run whose good end was told: all of it until Teardown, unless the policy says otherwise.
pub(super) fn kept(view: &View<'_>, index: usize, mpi: &NnfMpiSpec) -> Progress {
    if !is_completed(view, index, "PostRun") {
        return Progress::default();
    }
    Progress::default().with(ended(view, &view.directives[index].containers, &mpi.policy()))
}

/// What the policy has go once the launcher's end was told, good or not.
fn ended(view: &View<'_>, of: &Objects, policy: &NnfMpiRunPolicy) -> Vec<Change> {
    let launcher = launcher(view, of);
    let ttl = policy.ttl_seconds_after_finished.and_then(|seconds| i32::try_from(seconds).ok());
    let all = || of.jobs.values().filter_map(|job| Change::delete(&**job)).collect();
    match (launcher, ttl) {
        _ if policy.clean_pod_policy == Some(CleanPodPolicy::All) => all(),
        // Kubernetes counts the seconds.
        (Some(launcher), Some(ttl)) => {
            let mut after = launcher.clone();
            after.spec.get_or_insert_default().ttl_seconds_after_finished = Some(ttl);
            Change::patch(launcher, &after).into_iter().collect()
        }
        (None, Some(_)) => all(),
        (_, None) => Vec::new(),
    }
}

/// Stops what runs.
fn suspended(of: &Objects) -> Progress {
    let running = of.jobs.values().filter(|job| !state(job).is_ended());
    Progress::wait(format!("containers until the annotation {SUSPENDED} goes"))
        .with(running.filter_map(|job| stopped(job)))
}

/// What goes when the launcher has ended: the keys, and the workers that the policy names. Workers that failed stay, for their
/// logs.
fn cleaned(of: &Objects, launcher: &Job, policy: &NnfMpiRunPolicy) -> Vec<Change> {
    let keys = of.attempts.values().filter_map(|one| Change::delete(&**one));
    let workers = of.jobs.values().filter(|job| job.name_any() != launcher.name_any());
    let workers = workers.filter_map(|job| match &policy.clean_pod_policy {
        Some(CleanPodPolicy::None) => None,
        Some(CleanPodPolicy::All) => Change::delete(&**job),
        Some(CleanPodPolicy::Running | CleanPodPolicy::Other(_)) | None => {
            if state(job).is_ended() { None } else { stopped(job) }
        }
    });
    keys.chain(workers).collect()
}

fn stopped(job: &Job) -> Option<Change> {
    let mut after = job.clone();
    after.spec.get_or_insert_default().suspend = Some(true);
    Change::patch(job, &after)
}

/// Removes what attempts before this one left.
fn earlier(of: &Objects, number: u32) -> Progress {
    let jobs: Vec<&Arc<Job>> = of.jobs.values().filter(|job| attempt_of(job) < number).collect();
    let files = of.attempts.range(..number).filter_map(|(_, one)| Change::delete(&**one));
    let changes = jobs.iter().filter_map(|job| Change::delete(&***job)).chain(files);
    let progress = if jobs.is_empty() {
        Progress::default()
    } else {
        Progress::wait("containers that were suspended to end")
    };
    progress.with(changes)
}

/// The attempt that is to be: the last one, or the next when that one was suspended.
fn number(of: &Objects) -> u32 {
    let last = of.attempts.keys().copied().chain(of.jobs.values().map(|job| attempt_of(job))).max();
    let Some(last) = last else { return 1 };
    let is_suspended = |job: &Job| job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true);
    let mut own = of.jobs.values().filter(|job| attempt_of(job) == last);
    last + u32::from(own.any(|job| is_suspended(job)))
}

fn attempt_of(job: &Job) -> u32 {
    job.labels().get(label::ATTEMPT).and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn launcher<'a>(view: &View<'_>, of: &'a Objects) -> Option<&'a Job> {
    of.jobs.get(&names::launcher(&view.workflow.name_any())).map(|job| &**job)
}

/// Whether it ended by itself.
fn is_over(launcher: &Job) -> bool {
    matches!(state(launcher), State::Succeeded | State::Failed | State::TooLate)
}

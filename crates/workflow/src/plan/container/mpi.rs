//! MPI: workers on all rabbits, and a launcher once every one of them answers.
//!
//! A ConfigMap says which attempt it is: the last one counts. It owns the Secret with the keys of the attempt, so that they go
//! with it. What was suspended is not resumed but made anew, as the next attempt: nobody who had the keys before has these. So it is
//! too where the rabbits' agents run the pods.

use api::{
    NnfContainerProfileData,
    nnf_container_profile::{CleanPodPolicy, NnfMpiRunPolicy, NnfMpiSpec},
};
use containers::{Attempt, Run, names, objects, on_rabbit, outcome::State};
use directive::Container;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::{
    Part, all,
    ended::{awaited, why},
    network, packages,
    part::of_host,
    ports, ready,
    run::Parts,
    storages,
    suspend::{is_suspended, stay_suspended, suspended, without},
    volumes,
};
use crate::{
    change::Change,
    progress::{Outcome, Progress, internal_error, user_error},
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
    if let Some(launcher) = launcher(view, of).filter(|one| is_over(*one)) {
        return ready(of, &[launcher], now).with(cleaned(view, of, &policy));
    }
    if is_suspended(view) {
        return suspended(of);
    }
    if launcher(view, of).is_none()
        && let Some(lost) = lost(of, now)
    {
        return lost.with(cleaned(view, of, &policy));
    }
    match Parts::of(view, index, container) {
        Ok(parts) => created(view, index, container, &parts, now),
        Err(error) => Progress::failed(error),
    }
}

/// Makes what an attempt needs, one thing after the other.
fn created(
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
    let files = files(view, of, parts, &run, &attempt);
    if !of.attempts.contains_key(&attempt.number) {
        return files;
    }
    files
        .and(earlier(of, attempt.number))
        .and(storages::enabled(view, of, &run))
        .and(storages::mounted(view, container, &run))
        .and(packages::brought(of, parts, now))
        .then(|| volumes::made(of, parts))
        .then(|| workers(of, parts, &run))
        .then(|| match launcher(view, of) {
            Some(launcher) => ready(of, &[launcher], now),
            None => workers_ready(view, index, run.placement.len(), now).then(|| {
                Progress::default()
                    .with(parts.create(|| objects::launcher(&run), || on_rabbit::launcher(&run)))
            }),
        })
}

/// Makes the workers that are not there.
fn workers(of: &Objects, parts: &Parts<'_>, run: &Run<'_>) -> Progress {
    let is_missing = |place: &usize| of_host(of, &names::worker(run.workflow, *place)).is_none();
    let missing = (0..run.placement.len()).filter(is_missing);
    Progress::default().with(missing.filter_map(|place| {
        parts.create(|| objects::job(run, place), || on_rabbit::worker(run, place))
    }))
}

/// What pods need before they start: names, who reaches them, files, and keys once there is the ConfigMap that owns them.
fn files(
    view: &View<'_>,
    of: &Objects,
    parts: &Parts<'_>,
    run: &Run<'_>,
    attempt: &Attempt,
) -> Progress {
    let config_map = of.attempts.get(&attempt.number);
    let files = config_map.is_none().then(|| Change::create(&objects::config_map(run)));
    let is_made = launcher(view, of).is_some() || of.keys.contains(&attempt.keys);
    let keys = config_map.filter(|_| !is_made).and_then(|owner| objects::keys(run, owner));
    let keys = keys.map(|secret| Change::keys(&secret));
    Progress::default().with(network(of, parts, run)).with(files.into_iter().chain(keys))
}

/// That no launcher can start any more, because a worker of the last attempt has ended: what it says is not taken back, so that
/// nobody needs the keys.
fn lost(of: &Objects, now: Timestamp) -> Option<Progress> {
    let last = last(of)?;
    let workers: Vec<Part<'_>> = all(of).filter(|worker| worker.attempt() == last).collect();
    let in_state = |state| workers.iter().copied().find(|worker| worker.state() == state);
    if let Some(failed) = in_state(State::Failed)
        && let Some(profile) = &of.profile
    {
        return Some(Progress::failed(user_error(why(of, failed, profile.data()))));
    }
    if let Some(ended) = in_state(State::Succeeded) {
        let rabbit = ended.rabbit();
        return Some(Progress::failed(user_error(format!(
            "worker on {rabbit} ended before its launcher"
        ))));
    }
    let is_lost = |state| matches!(state, State::TooLate | State::Unprepared);
    workers.iter().any(|worker| is_lost(worker.state())).then(|| ready(of, &workers, now))
}

/// Whether every worker answers.
fn workers_ready(view: &View<'_>, index: usize, count: usize, now: Timestamp) -> Progress {
    let of = &view.directives[index].containers;
    let names = (0..count).map(|place| names::worker(&view.workflow.name_any(), place));
    let workers: Vec<Part<'_>> = names.filter_map(|name| of_host(of, &name)).collect();
    ready(of, &workers, now)
}

/// Waits until the launcher has ended, and reports how.
pub(super) fn end(
    view: &View<'_>,
    index: usize,
    profile: &NnfContainerProfileData,
    mpi: &NnfMpiSpec,
    now: Timestamp,
) -> Progress {
    let of = &view.directives[index].containers;
    if is_completed(view, index, "PostRun") {
        return kept(view, index, mpi, now);
    }
    let (policy, is_reported) = (mpi.policy(), is_failed(view, index, "PostRun"));
    let Some(launcher) = launcher(view, of) else {
        if is_reported {
            // The policy removed it after PostRun's result was in the status, where that stays.
            return Progress { outcome: Outcome::Working, changes: ended(view, of, &policy, now) };
        }
        let is_gone = is_completed(view, index, "PreRun");
        let gone = "the launcher is gone: how it ended is not known";
        return if is_gone { Progress::failed(internal_error(gone)) } else { Progress::default() };
    };
    let mut cleaned = cleaned(view, of, &policy);
    match launcher.state() {
        State::Failed | State::TooLate | State::Unprepared => {
            let more = if is_reported { ended(view, of, &policy, now) } else { Vec::new() };
            let more: Vec<_> = more.into_iter().filter(|one| !cleaned.contains(one)).collect();
            cleaned.extend(more);
            Progress::failed(user_error(why(of, launcher, profile))).with(cleaned)
        }
        State::Succeeded => Progress::default().with(cleaned),
        State::Suspended => Progress::failed(stay_suspended()),
        State::Starting | State::Ready => awaited(of, &[launcher], profile, now),
    }
}

/// Keeps a run after its success is in the status: all of it until Teardown, unless the policy says otherwise.
pub(super) fn kept(view: &View<'_>, index: usize, mpi: &NnfMpiSpec, now: Timestamp) -> Progress {
    if !is_completed(view, index, "PostRun") {
        return Progress::default();
    }
    Progress::default().with(ended(view, &view.directives[index].containers, &mpi.policy(), now))
}

/// What the policy removes after PostRun's result is in the status, good or not.
fn ended(view: &View<'_>, of: &Objects, policy: &NnfMpiRunPolicy, now: Timestamp) -> Vec<Change> {
    let launcher = launcher(view, of);
    let ttl = policy.ttl_seconds_after_finished.and_then(|seconds| i32::try_from(seconds).ok());
    let is_due = || expires(view, of, policy).is_some_and(|at| at <= now);
    let all = || all(of).filter_map(Part::removed).collect();
    match (launcher, ttl) {
        _ if policy.clean_pod_policy == Some(CleanPodPolicy::All) => all(),
        // Kubernetes counts the seconds.
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

/// When the time of an ended launcher is over that an agent ran.
pub(super) fn expires(
    view: &View<'_>,
    of: &Objects,
    policy: &NnfMpiRunPolicy,
) -> Option<Timestamp> {
    let seconds = policy.ttl_seconds_after_finished?;
    let end = launcher(view, of)?.ended_on_rabbit()?;
    end.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// What goes when the launcher has ended: the keys, and the workers that the policy names. Workers that failed stay, for their
/// logs.
fn cleaned(view: &View<'_>, of: &Objects, policy: &NnfMpiRunPolicy) -> Vec<Change> {
    let keys = of.attempts.values().filter_map(|one| Change::delete(&**one));
    let launcher = names::launcher(&view.workflow.name_any());
    let workers = all(of).filter(|part| part.host() != launcher);
    let workers = workers.filter_map(|worker| match &policy.clean_pod_policy {
        Some(CleanPodPolicy::None) => None,
        Some(CleanPodPolicy::All) => worker.removed(),
        Some(CleanPodPolicy::Running | CleanPodPolicy::Other(_)) | None => {
            if worker.state().is_ended() { None } else { worker.stopped() }
        }
    });
    keys.chain(workers).collect()
}

/// Removes what attempts before this one left.
fn earlier(of: &Objects, number: u32) -> Progress {
    let files = of.attempts.range(..number).filter_map(|(_, one)| Change::delete(&**one));
    without(all(of).filter(|part| part.attempt() < number)).with(files)
}

/// The attempt that is to be: the last one, or the next when that one was suspended.
fn number(of: &Objects) -> u32 {
    let Some(last) = last(of) else { return 1 };
    let mut own = all(of).filter(|part| part.attempt() == last);
    last + u32::from(own.any(Part::is_stopped))
}

/// The number of the last attempt.
fn last(of: &Objects) -> Option<u32> {
    of.attempts.keys().copied().chain(all(of).map(Part::attempt)).max()
}

fn launcher<'a>(view: &View<'_>, of: &'a Objects) -> Option<Part<'a>> {
    of_host(of, &names::launcher(&view.workflow.name_any()))
}

/// Whether it ended by itself.
fn is_over(launcher: Part<'_>) -> bool {
    matches!(launcher.state(), State::Succeeded | State::Failed | State::TooLate)
}

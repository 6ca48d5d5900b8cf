//! The containers of a run on one rabbit: a Job that Kubernetes runs, or a NodeContainers that the rabbit's agent runs.

use api::{
    NodeContainers, RabbitLabels,
    names::{finalizer, label},
};
use containers::{
    on_rabbit,
    outcome::{self, State},
};
use controller::has_finalizer;
use k8s_openapi::{
    api::batch::v1::Job,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    jiff::{SignedDuration, Timestamp},
};

use super::view::Containers as Objects;

/// Seconds within which a rabbit may still report the end of containers, counted from deadline plus grace period.
const LATE: i64 = 60;
/// Seconds between SIGTERM and SIGKILL if the profile does not set them.
const GRACE: i64 = 30;

/// The containers of a run on one rabbit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'a> {
    /// A Job, which Kubernetes runs.
    Job(&'a Job),
    /// A NodeContainers, which the rabbit's agent runs.
    Agent(&'a NodeContainers),
}

/// Returns all parts of a directive's containers: one part for each Job or NodeContainers.
pub(crate) fn all_parts(existing: &Objects) -> impl Iterator<Item = Part<'_>> {
    let jobs = existing.jobs.values().map(|job| Part::Job(job));
    jobs.chain(existing.on_rabbits.values().map(|containers| Part::Agent(containers)))
}

/// Returns the part with this host name.
pub(crate) fn of_host<'a>(existing: &'a Objects, host: &str) -> Option<Part<'a>> {
    all_parts(existing).find(|part| part.host() == host)
}

impl<'a> Part<'a> {
    /// Returns the host name of the containers. With MPI it distinguishes worker and launcher on one rabbit.
    pub(crate) fn host(self) -> &'a str {
        match self {
            Self::Job(job) => job.metadata.name.as_deref().unwrap_or_default(),
            Self::Agent(containers) => &containers.spec.hostname,
        }
    }

    /// Returns the number of the MPI attempt; 0 without MPI.
    pub(crate) fn attempt(self) -> u32 {
        let label = match self {
            Self::Job(job) => job.label(label::ATTEMPT),
            Self::Agent(containers) => containers.label(label::ATTEMPT),
        };
        label.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Returns true if the containers are suspended.
    pub(crate) fn is_stopped(self) -> bool {
        match self {
            Self::Job(job) => job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true),
            Self::Agent(containers) => containers.spec.suspend,
        }
    }

    pub(crate) fn rabbit(self) -> &'a str {
        match self {
            Self::Job(job) => outcome::rabbit_of(job),
            Self::Agent(containers) => containers.metadata.namespace.as_deref().unwrap_or_default(),
        }
    }

    pub(crate) fn state(self) -> State {
        match self {
            Self::Job(job) => outcome::state(job),
            Self::Agent(containers) => on_rabbit::state(containers),
        }
    }

    /// Returns why the containers failed or wait.
    pub(crate) fn reason(self, existing: &Objects) -> Option<String> {
        match self {
            Self::Job(job) => {
                let pods = existing.pods.get(job.metadata.name.as_deref()?)?;
                outcome::reason(pods.iter().map(|pod| &**pod))
            }
            Self::Agent(containers) if !has_finalizer(containers, finalizer::NODE_CONTAINERS) => {
                let runs = !containers.spec.containers.is_empty();
                let flag = if runs { "--podman" } else { "--podman or --package-dir" };
                Some(format!(
                    "its agent has not started them: check that the agent runs, with {flag}"
                ))
            }
            Self::Agent(containers) => on_rabbit::reason(containers),
        }
    }

    /// Returns the deadline in seconds from the start; `None` for no limit.
    pub(crate) fn deadline(self) -> Option<i64> {
        match self {
            Self::Job(job) => job.spec.as_ref()?.active_deadline_seconds,
            Self::Agent(containers) => containers.spec.active_deadline_seconds,
        }
    }

    /// Returns the start time, by the clock of the Job controller or agent that counts the deadline.
    pub(crate) fn started(self) -> Option<Timestamp> {
        let time = match self {
            Self::Job(job) => job.status.as_ref()?.start_time.as_ref(),
            Self::Agent(containers) => containers.status.as_ref()?.start_time.as_ref(),
        };
        time.map(|time| time.0)
    }

    /// Returns the time at which the agent saw the end; `None` for Jobs: Kubernetes applies their TTL itself.
    pub(crate) fn ended_on_rabbit(self) -> Option<Timestamp> {
        match self {
            Self::Job(_) => None,
            Self::Agent(containers) => {
                containers.status.as_ref()?.end_time.as_ref().map(|time| time.0)
            }
        }
    }

    /// Returns the time from which the rabbit counts as silent unless it has reported the end before: the deadline plus
    /// the grace period plus [`LATE`]. For containers that were never started, the deadline counts from their creation.
    pub(crate) fn silent_from(self) -> Option<Timestamp> {
        if self.state().is_ended() || self.is_stopped() {
            return None;
        }
        let created = || self.metadata().creation_timestamp.as_ref().map(|at| at.0);
        let begun = self.started().or_else(created)?;
        let seconds = self.deadline()?.saturating_add(self.grace()).saturating_add(LATE);
        begun.checked_add(SignedDuration::from_secs(seconds)).ok()
    }

    /// Returns the state in one word, for metrics.
    pub(crate) fn state_word(self, now: Timestamp) -> &'static str {
        let is_silent = self.silent_from().is_some_and(|from| from <= now);
        if is_silent { "silent" } else { self.state().label() }
    }

    fn grace(self) -> i64 {
        let seconds = match self {
            Self::Job(job) => {
                let pod = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
                pod.and_then(|pod| pod.termination_grace_period_seconds)
            }
            Self::Agent(containers) => containers.spec.termination_grace_period_seconds,
        };
        seconds.unwrap_or(GRACE)
    }

    /// Returns the name that messages use for the program that runs the containers on the rabbit.
    pub(crate) fn runner(self) -> &'static str {
        match self {
            Self::Job(_) => "kubelet",
            Self::Agent(_) => "agent",
        }
    }

    fn metadata(self) -> &'a ObjectMeta {
        match self {
            Self::Job(job) => &job.metadata,
            Self::Agent(containers) => &containers.metadata,
        }
    }
}

/// Returns the state of each run on each rabbit in one word.
pub(crate) fn container_states<'a>(
    jobs: impl Iterator<Item = &'a Job>,
    on_rabbits: impl Iterator<Item = &'a NodeContainers>,
    now: Timestamp,
) -> impl Iterator<Item = &'static str> {
    let runs = on_rabbits.filter(|containers| !containers.spec.containers.is_empty());
    jobs.map(Part::Job).chain(runs.map(Part::Agent)).map(move |part| part.state_word(now))
}

//! The containers of a run on one rabbit, whoever runs them: a Job of Kubernetes, or the rabbit's agent.

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

use crate::{change::Change, view::Containers as Objects};

/// Seconds after containers should have ended in which their rabbit may still say so.
const LATE: i64 = 60;
/// Seconds between the signal to end and the end, when the profile does not say.
const GRACE: i64 = 30;

/// The containers on one rabbit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part<'a> {
    /// Kubernetes runs them.
    Job(&'a Job),
    /// The rabbit's agent does.
    Agent(&'a NodeContainers),
}

/// All of a directive.
pub(super) fn all(of: &Objects) -> impl Iterator<Item = Part<'_>> {
    let jobs = of.jobs.values().map(|job| Part::Job(job));
    jobs.chain(of.on_rabbits.values().map(|one| Part::Agent(one)))
}

/// The one with this host.
pub(super) fn of_host<'a>(of: &'a Objects, host: &str) -> Option<Part<'a>> {
    all(of).find(|part| part.host() == host)
}

impl<'a> Part<'a> {
    /// Name of their host: with MPI, what tells a run's two on one rabbit apart.
    pub(super) fn host(self) -> &'a str {
        match self {
            Self::Job(job) => job.metadata.name.as_deref().unwrap_or_default(),
            Self::Agent(one) => &one.spec.hostname,
        }
    }

    /// Which attempt of MPI they belong to.
    pub(super) fn attempt(self) -> u32 {
        let label = match self {
            Self::Job(job) => job.label(label::ATTEMPT),
            Self::Agent(one) => one.label(label::ATTEMPT),
        };
        label.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Whether they are to end.
    pub(super) fn is_stopped(self) -> bool {
        match self {
            Self::Job(job) => job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true),
            Self::Agent(one) => one.spec.suspend,
        }
    }

    /// Ends them.
    pub(super) fn stopped(self) -> Option<Change> {
        match self {
            Self::Job(job) => {
                let mut after = job.clone();
                after.spec.get_or_insert_default().suspend = Some(true);
                Change::patch(job, &after)
            }
            Self::Agent(one) => {
                let mut after = one.clone();
                after.spec.suspend = true;
                Change::patch(one, &after)
            }
        }
    }

    /// Where they are.
    pub(super) fn rabbit(self) -> &'a str {
        match self {
            Self::Job(job) => outcome::rabbit_of(job),
            Self::Agent(one) => one.metadata.namespace.as_deref().unwrap_or_default(),
        }
    }

    /// How far they are.
    pub(super) fn state(self) -> State {
        match self {
            Self::Job(job) => outcome::state(job),
            Self::Agent(one) => on_rabbit::state(one),
        }
    }

    /// Why it failed or waits.
    pub(super) fn reason(self, of: &Objects) -> Option<String> {
        match self {
            Self::Job(job) => {
                let pods = of.pods.get(job.metadata.name.as_deref()?)?;
                outcome::reason(pods.iter().map(|pod| &**pod))
            }
            Self::Agent(one) if !has_finalizer(one, finalizer::NODE_CONTAINERS) => {
                let runs = !one.spec.containers.is_empty();
                let flag = if runs { "--podman" } else { "--podman or --package-dir" };
                Some(format!("its agent has not taken them up: see that it runs, with {flag}"))
            }
            Self::Agent(one) => on_rabbit::reason(one),
        }
    }

    /// Seconds that they may take.
    pub(super) fn deadline(self) -> Option<i64> {
        match self {
            Self::Job(job) => job.spec.as_ref()?.active_deadline_seconds,
            Self::Agent(one) => one.spec.active_deadline_seconds,
        }
    }

    /// When they began, on the clock of whoever counts the seconds.
    pub(super) fn started(self) -> Option<Timestamp> {
        let time = match self {
            Self::Job(job) => job.status.as_ref()?.start_time.as_ref(),
            Self::Agent(one) => one.status.as_ref()?.start_time.as_ref(),
        };
        time.map(|time| time.0)
    }

    /// When the agent saw that they ended. Of Jobs Kubernetes keeps the time to live.
    pub(super) fn ended_on_rabbit(self) -> Option<Timestamp> {
        match self {
            Self::Job(_) => None,
            Self::Agent(one) => one.status.as_ref()?.end_time.as_ref().map(|time| time.0),
        }
    }

    /// When their rabbit becomes silent, unless it says before that they ended: their deadline and the time to end are over by then.
    /// Containers that nobody took up count from their creation.
    pub(super) fn silent_from(self) -> Option<Timestamp> {
        if self.state().is_ended() || self.is_stopped() {
            return None;
        }
        let created = || self.metadata().creation_timestamp.as_ref().map(|at| at.0);
        let begun = self.started().or_else(created)?;
        let seconds = self.deadline()?.saturating_add(self.grace()).saturating_add(LATE);
        begun.checked_add(SignedDuration::from_secs(seconds)).ok()
    }

    /// How far they are, for metrics.
    pub(super) fn word(self, now: Timestamp) -> &'static str {
        let is_silent = self.silent_from().is_some_and(|from| from <= now);
        if is_silent { "silent" } else { self.state().label() }
    }

    fn grace(self) -> i64 {
        let seconds = match self {
            Self::Job(job) => {
                let pod = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
                pod.and_then(|pod| pod.termination_grace_period_seconds)
            }
            Self::Agent(one) => one.spec.termination_grace_period_seconds,
        };
        seconds.unwrap_or(GRACE)
    }

    /// Who runs them on the rabbit.
    pub(super) fn runner(self) -> &'static str {
        match self {
            Self::Job(_) => "kubelet",
            Self::Agent(_) => "agent",
        }
    }

    fn metadata(self) -> &'a ObjectMeta {
        match self {
            Self::Job(job) => &job.metadata,
            Self::Agent(one) => &one.metadata,
        }
    }

    /// Gives them so many seconds, or no limit.
    pub(super) fn with_deadline(self, seconds: Option<i64>) -> Option<Change> {
        match self {
            Self::Job(job) => {
                let mut after = job.clone();
                after.spec.get_or_insert_default().active_deadline_seconds = seconds;
                Change::patch(job, &after)
            }
            Self::Agent(one) => {
                let mut after = one.clone();
                after.spec.active_deadline_seconds = seconds;
                Change::patch(one, &after)
            }
        }
    }

    /// Removes them.
    pub(super) fn removed(self) -> Option<Change> {
        match self {
            Self::Job(job) => Change::delete(job),
            Self::Agent(one) => Change::delete(one),
        }
    }
}

//! Plans a coordinator's next step for a run, from the run as the API has stored it and from the state
//! of the run's rabbits.
//!
//! A step is either a write of the status or an action on the rabbits. A coordinator acts only if the stored claim is
//! its own, and only as the stored phase says. If the API refuses a write, another write came first: the coordinator
//! reads the run again and plans again.

use api::{
    ContainerRun, ContainerRunPhase as Phase, ContainerRunStatus as Status,
    container_run::{ContainerRunClaim, ContainerRunWriter},
};

use super::{Holder, rules::is_open};

/// Maximum bytes of a status message: the schema allows 4096 characters, and each has at least one byte.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The state of a run's attempt on a rabbit. Before a rabbit prepares an attempt, it ends the
/// containers of earlier attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RabbitState {
    Nothing,
    /// The rabbit prepares storage and images.
    Preparing,
    /// Storage and images are there; no container was created.
    Prepared,
    /// The container exists, but is not ready.
    Starting,
    Ready,
    Succeeded,
    /// The container failed, for this reason.
    Failed(String),
    /// The container was not ready within the time that the profile gives.
    TooLate,
    /// The rabbit is silent: containers that it has started may still run.
    Unknown,
    /// The rabbit is lost for good, as an administrator's taint or other evidence shows: no container runs there.
    Lost,
}

/// The state of one rabbit of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnRabbit {
    /// Name of the rabbit. Empty if `state` is the state of all rabbits together: the text in `state` then names the
    /// rabbits.
    pub name: String,
    pub state: RabbitState,
}

/// The facts that a coordinator knows in addition to the run.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub me: &'a Holder,
    /// Whether this coordinator has renewed its Lease recently enough to act.
    pub may_act: bool,
    /// Whether the Lease of the run's holder has expired.
    pub holder_expired: bool,
    /// If rabbits refused a command for the run because they know a claim of another holder: the highest epoch of such
    /// a claim; otherwise 0.
    pub refused_with: i64,
    /// The run's rabbits, in the run's order.
    pub rabbits: &'a [OnRabbit],
}

/// A coordinator's next step for a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Waits until something changes.
    Wait,
    /// Writes this status. The API refuses it unless the run still has the version from which the step was planned.
    Write(Status),
    /// Prepares the rabbits that have not begun to prepare this attempt.
    Prepare,
    /// Creates the missing containers.
    Start,
    /// Ends the preparation of this attempt, and its containers.
    Stop,
    /// Removes the ended containers of a run.
    CleanUp,
}

/// Plans the next step.
#[must_use]
pub fn plan(run: &ContainerRun, view: &View<'_>) -> Step {
    if !view.may_act {
        return Step::Wait;
    }
    let Some(status) = &run.status else { return Step::Write(first_status(run, view.me)) };
    let plan = Plan { run, status, view };
    let is_mine = status.claim.holder == view.me.as_str();
    if is_open(&status.phase) {
        return plan.plan_open();
    }
    if !is_mine {
        let is_over = status.phase.is_final() && plan.plan_final() == Step::Wait;
        return if view.holder_expired && !is_over {
            plan.claim(&status.phase)
        } else {
            Step::Wait
        };
    }
    // A rabbit has obeyed a claim that the API does not know: so the API was restored from a backup.
    if view.refused_with >= status.claim.epoch {
        return plan.claim(&status.phase);
    }
    match &status.phase {
        Phase::Claimed => plan.plan_claimed(),
        Phase::Starting => plan.plan_starting(),
        Phase::Running => plan.plan_running(),
        Phase::Stopping => plan.plan_stopping(),
        Phase::Succeeded | Phase::Failed | Phase::Cancelled => plan.plan_final(),
        Phase::Queued | Phase::Suspended | Phase::Other(_) => Step::Wait,
    }
}

fn is_wanted(run: &ContainerRun) -> bool {
    run.spec.priority > 0 && run.metadata.deletion_timestamp.is_none()
}

/// Returns the first status of a run that no coordinator has claimed. Rule R9 requires that the first status has a
/// claim, even if `spec.suspend` is set.
fn first_status(run: &ContainerRun, me: &Holder) -> Status {
    let holder = me.as_str().to_owned();
    let (phase, attempt) = if is_wanted(run) { (Phase::Claimed, 1) } else { (Phase::Cancelled, 0) };
    Status {
        claim: ContainerRunClaim { holder: holder.clone(), epoch: 1 },
        writer: ContainerRunWriter { holder, epoch: 1, seq: 1 },
        phase,
        attempt,
        message: String::new(),
    }
}

struct Plan<'a> {
    run: &'a ContainerRun,
    status: &'a Status,
    view: &'a View<'a>,
}

impl Plan<'_> {
    fn states(&self) -> impl Iterator<Item = &RabbitState> {
        self.view.rabbits.iter().map(|rabbit| &rabbit.state)
    }

    fn are_all(&self, is: impl Fn(&RabbitState) -> bool) -> bool {
        self.view.rabbits.iter().all(|rabbit| is(&rabbit.state))
    }

    fn is_any(&self, is: impl Fn(&RabbitState) -> bool) -> bool {
        self.states().any(is)
    }

    fn is_wanted(&self) -> bool {
        is_wanted(self.run)
    }

    fn is_active(&self) -> bool {
        self.is_any(|state| {
            matches!(
                state,
                RabbitState::Preparing
                    | RabbitState::Prepared
                    | RabbitState::Starting
                    | RabbitState::Ready
            )
        })
    }

    /// Returns a write of the run's next status, under the present claim.
    fn write(&self, phase: Phase, message: impl Into<String>) -> Step {
        Step::Write(self.next_status(
            &self.status.claim,
            phase,
            self.status.attempt,
            message.into(),
        ))
    }

    /// Returns a write of the run's next status, under a new claim by this coordinator. A claim of an open run starts a
    /// new attempt; a claim that takes over a run from another coordinator keeps the attempt.
    fn claim(&self, phase: &Phase) -> Step {
        let epoch = self.status.claim.epoch.max(self.view.refused_with).saturating_add(1);
        let claim = ContainerRunClaim { holder: self.view.me.as_str().to_owned(), epoch };
        let is_new = *phase == Phase::Claimed && is_open(&self.status.phase);
        let attempt = self.status.attempt.saturating_add(i32::from(is_new));
        let message = if is_new { String::new() } else { self.status.message.clone() };
        Step::Write(self.next_status(&claim, phase.clone(), attempt, message))
    }

    fn next_status(
        &self,
        claim: &ContainerRunClaim,
        phase: Phase,
        attempt: i32,
        mut message: String,
    ) -> Status {
        // The message may contain the last lines of a log, which may be of any length.
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        let ContainerRunClaim { holder, epoch } = claim.clone();
        let seq = self.status.writer.seq.saturating_add(1);
        Status {
            claim: claim.clone(),
            writer: ContainerRunWriter { holder, epoch, seq },
            phase,
            attempt,
            message,
        }
    }

    /// Plans the step for an open run: any coordinator may claim it.
    fn plan_open(&self) -> Step {
        if !self.is_wanted() {
            return self.claim(&Phase::Cancelled);
        }
        if self.run.spec.suspend { Step::Wait } else { self.claim(&Phase::Claimed) }
    }

    /// Plans the step for a claimed run. The run has no containers yet, so it can end without a stop of containers.
    fn plan_claimed(&self) -> Step {
        if !self.is_wanted() {
            return self.write(Phase::Cancelled, "");
        }
        if self.run.spec.suspend {
            return self.write(Phase::Suspended, "");
        }
        if let Some(why) = self.failures() {
            return self.give_back(&why);
        }
        if !self.view.rabbits.is_empty() && self.are_all(|state| *state == RabbitState::Prepared) {
            return self.write(Phase::Starting, "");
        }
        if self.is_any(|state| *state == RabbitState::Nothing) { Step::Prepare } else { Step::Wait }
    }

    /// Makes the run open again, so that any coordinator may claim it; ends the run instead if it
    /// was claimed too often.
    fn give_back(&self, why: &str) -> Step {
        if self.status.attempt < self.run.spec.max_claim_attempts {
            return self.write(Phase::Queued, why);
        }
        let attempts = self.status.attempt;
        self.write(Phase::Failed, format!("ClaimAttemptsExceeded after {attempts} attempts: {why}"))
    }

    fn plan_starting(&self) -> Step {
        if !self.is_wanted() || self.run.spec.suspend {
            return self.write(Phase::Stopping, "");
        }
        if let Some(failed) = self.plan_failure() {
            return failed;
        }
        if self.are_all(|state| matches!(state, RabbitState::Ready | RabbitState::Succeeded)) {
            return self.write(Phase::Running, "");
        }
        // If a rabbit has got a new disk, the prepared storage and images are lost.
        if self.is_any(|state| *state == RabbitState::Nothing) {
            return Step::Prepare;
        }
        let is_missing =
            self.is_any(|state| matches!(state, RabbitState::Preparing | RabbitState::Prepared));
        if is_missing { Step::Start } else { Step::Wait }
    }

    fn plan_running(&self) -> Step {
        // A container that had succeeded before the stop has the state Succeeded, also after the stop.
        if self.are_all(|state| *state == RabbitState::Succeeded) {
            return self.write(Phase::Succeeded, "");
        }
        if !self.is_wanted() || self.run.spec.suspend {
            return self.write(Phase::Stopping, "");
        }
        self.plan_failure().unwrap_or(Step::Wait)
    }

    fn plan_stopping(&self) -> Step {
        if self.is_active() {
            return Step::Stop;
        }
        if self.is_any(|state| *state == RabbitState::Unknown) {
            return Step::Wait;
        }
        if !self.is_wanted() {
            return self.write(Phase::Cancelled, "");
        }
        if self.are_all(|state| *state == RabbitState::Succeeded) {
            return self.write(Phase::Succeeded, "");
        }
        // The run was suspended: it continues once `spec.suspend` is false.
        self.write(Phase::Suspended, "")
    }

    /// Plans the step for a run in a final phase. Ended containers and their logs stay as long as the run is wanted.
    fn plan_final(&self) -> Step {
        if self.is_active() {
            return Step::Stop;
        }
        let is_there = |state: &RabbitState| {
            matches!(state, RabbitState::Succeeded | RabbitState::Failed(_) | RabbitState::TooLate)
        };
        if !self.is_wanted() && self.is_any(is_there) { Step::CleanUp } else { Step::Wait }
    }

    /// Plans the end of a run with a failed container. Waits while a rabbit is silent, because this rabbit may still
    /// run containers of the run.
    fn plan_failure(&self) -> Option<Step> {
        if self.is_any(|state| *state == RabbitState::Unknown) {
            return Some(Step::Wait);
        }
        Some(self.write(Phase::Failed, self.failures()?))
    }

    /// Returns the failures of all rabbits, each with the name of its rabbit; `None` if no rabbit failed. If the
    /// deadline was missed, names the rabbits that are not ready.
    fn failures(&self) -> Option<String> {
        let is_gone = |state: &RabbitState| {
            self.status.phase == Phase::Running && *state == RabbitState::Nothing
        };
        let why = |state: &RabbitState| match state {
            RabbitState::Failed(why) => Some(why.clone()),
            RabbitState::TooLate => Some("was not ready in time".to_owned()),
            RabbitState::Lost => Some("is lost".to_owned()),
            state if is_gone(state) => Some("no container is left".to_owned()),
            _ => None,
        };
        let texts: Vec<String> = self
            .view
            .rabbits
            .iter()
            .filter_map(|rabbit| Some((&rabbit.name, why(&rabbit.state)?)))
            .map(|(name, why)| if name.is_empty() { why } else { format!("{name}: {why}") })
            .collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

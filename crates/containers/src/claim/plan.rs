//! Plans a coordinator's next step for a run, from the run as the API has it and the state of its rabbits.
//!
//! A step is a write of the status or an act. Only the coordinator whose claim is stored acts, and only in the phase
//! that is stored. A coordinator whose write the API refuses has lost the
//! run, and plans anew from what the API has then.

use api::{
    ContainerRun, ContainerRunPhase as Phase, ContainerRunStatus as Status,
    container_run::{ContainerRunClaim, ContainerRunWriter},
};

use super::{Holder, rules::is_open};

/// Maximum bytes of a status message: the schema allows as many characters.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The state of a run's attempt on a rabbit. A rabbit that prepares an attempt first ends what it has of earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RabbitState {
    Nothing,
    /// The rabbit prepares storage and images.
    Preparing,
    /// Storage and images are there; no container is.
    Prepared,
    /// The container exists, and is not ready.
    Starting,
    Ready,
    Succeeded,
    /// The container failed, for this reason.
    Failed(String),
    /// The container was not ready within the time that the profile allows.
    TooLate,
    /// The rabbit is silent: what it ran may run still.
    Unknown,
    /// The rabbit is lost for good, by evidence such as an administrator's taint: nothing runs there.
    Lost,
}

/// The state of one rabbit of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnRabbit {
    /// Name of the rabbit. Empty if `state` is that of all rabbits together: then its texts name the rabbits.
    pub name: String,
    pub state: RabbitState,
}

/// A coordinator's knowledge besides the run.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub me: &'a Holder,
    /// Whether this coordinator renewed its Lease recently enough.
    pub may_act: bool,
    /// Whether the Lease of the run's holder has expired.
    pub holder_expired: bool,
    /// The highest epoch of another holder for which a rabbit refused a command for the run; 0 when none did.
    pub refused_with: i64,
    /// The run's rabbits, in the run's order.
    pub rabbits: &'a [OnRabbit],
}

/// A coordinator's next step for a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Waits until something changes.
    Wait,
    /// Writes this status over the version of the run that it was planned from.
    Write(Status),
    /// Prepares the rabbits that have nothing of this attempt yet.
    Prepare,
    /// Creates the missing containers.
    Start,
    /// Ends what is prepared and what runs.
    Stop,
    /// Removes what an ended run left behind.
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
    // A rabbit obeyed a claim that the API does not know: the API was restored from a backup.
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

/// Returns the first status of a run that no coordinator has claimed. Rule
/// R9 asks for a claim, even if `spec.suspend` is set.
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

    /// Writes the next status under the same claim.
    fn write(&self, phase: Phase, message: impl Into<String>) -> Step {
        Step::Write(self.next_status(
            &self.status.claim,
            phase,
            self.status.attempt,
            message.into(),
        ))
    }

    /// Writes the next status under a new claim of this coordinator. To claim an open run starts a new attempt; a run
    /// that is taken over keeps its attempt.
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
        // A message with the last lines of a log may be of any length.
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

    /// Plans for an open run, which the first coordinator to come may claim.
    fn plan_open(&self) -> Step {
        if !self.is_wanted() {
            return self.claim(&Phase::Cancelled);
        }
        if self.run.spec.suspend { Step::Wait } else { self.claim(&Phase::Claimed) }
    }

    /// Plans for a run without containers, which can end without stopping any.
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

    /// Opens the run for another claim, by any coordinator, unless it was claimed too often.
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
        // A rabbit with a new disk has lost what its containers start from.
        if self.is_any(|state| *state == RabbitState::Nothing) {
            return Step::Prepare;
        }
        let is_missing =
            self.is_any(|state| matches!(state, RabbitState::Preparing | RabbitState::Prepared));
        if is_missing { Step::Start } else { Step::Wait }
    }

    fn plan_running(&self) -> Step {
        // Containers that succeeded before anything stopped them have succeeded.
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
        // The run was suspended: it goes on once `spec.suspend` is false.
        self.write(Phase::Suspended, "")
    }

    /// Plans for a run in a final phase. Ended containers stay, with their logs, until the run is not wanted.
    fn plan_final(&self) -> Step {
        if self.is_active() {
            return Step::Stop;
        }
        let is_there = |state: &RabbitState| {
            matches!(state, RabbitState::Succeeded | RabbitState::Failed(_) | RabbitState::TooLate)
        };
        if !self.is_wanted() && self.is_any(is_there) { Step::CleanUp } else { Step::Wait }
    }

    /// Plans the end of a run with a failed container, once no rabbit is silent: a
    /// silent rabbit may still run some of its containers.
    fn plan_failure(&self) -> Option<Step> {
        if self.is_any(|state| *state == RabbitState::Unknown) {
            return Some(Step::Wait);
        }
        Some(self.write(Phase::Failed, self.failures()?))
    }

    /// Returns the failures of all rabbits, each with its rabbit; `None` while nothing failed. A missed deadline names
    /// the rabbits that are not ready.
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

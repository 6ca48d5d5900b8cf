//! What a coordinator does next for a run: one step at a time, from the run as the API has it and what there is on the rabbits.
//!
//! A step is either a write of the status or an act. An act is done only by a coordinator whose claim is stored, in the phase that
//! is stored; a write that the API refuses means that the coordinator lost the run, and it plans anew from what the API has then.

use api::{
    ContainerRun, ContainerRunPhase as Phase, ContainerRunStatus as Status,
    container_run::{ContainerRunClaim, ContainerRunWriter},
};

use super::{Holder, rules::is_open};

/// Bytes of a message: the schema takes no more characters.
const MESSAGE: usize = 4096;

/// What there is of a run's attempt on one of its rabbits. A rabbit ends what it has of earlier attempts when it prepares one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Nothing,
    /// It is being prepared.
    Preparing,
    /// Its storage and images are there; no container is.
    Prepared,
    /// Its container is made, and not ready.
    Starting,
    Ready,
    Succeeded,
    /// It ended, and not well: why.
    Failed(String),
    /// It took longer than the profile allows.
    TooLate,
    /// The rabbit is silent: whatever was there may be there still.
    Unknown,
    /// The rabbit is gone for good by evidence, such as the taint of an administrator. Nothing runs there.
    Lost,
}

/// A rabbit of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnRabbit {
    /// Empty where the state is that of all rabbits together: then its texts name the rabbit.
    pub name: String,
    pub state: State,
}

/// What a coordinator knows beside the run.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub me: &'a Holder,
    /// Whether it renewed its Lease lately enough.
    pub may_act: bool,
    /// Whether the Lease of the run's holder has expired.
    pub holder_expired: bool,
    /// The highest epoch of another holder for which a rabbit refused a command for the run; 0 when none did.
    pub refused_with: i64,
    /// The run's rabbits, in its order.
    pub rabbits: &'a [OnRabbit],
}

/// What a coordinator does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing, until something changes.
    Wait,
    /// Stores this status, in the version of the run that it was planned from.
    Write(Status),
    /// Has the rabbits prepared on which nothing of this attempt is yet.
    Prepare,
    /// Makes the containers that are missing.
    Start,
    /// Ends what was prepared and what runs.
    Stop,
    /// Removes what a run that ended left behind.
    CleanUp,
}

/// Plans the next step.
#[must_use]
pub fn plan(run: &ContainerRun, view: &View<'_>) -> Step {
    if !view.may_act {
        return Step::Wait;
    }
    let Some(status) = &run.status else { return Step::Write(first(run, view.me)) };
    let plan = Plan { run, status, view };
    let is_mine = status.claim.holder == view.me.as_str();
    if is_open(&status.phase) {
        return plan.open();
    }
    if !is_mine {
        let is_over = status.phase.is_final() && plan.ended() == Step::Wait;
        return if view.holder_expired && !is_over {
            plan.claim(&status.phase)
        } else {
            Step::Wait
        };
    }
    // A rabbit obeyed another claim that the API does not know, since the API was restored from a backup.
    if view.refused_with >= status.claim.epoch {
        return plan.claim(&status.phase);
    }
    match &status.phase {
        Phase::Claimed => plan.claimed(),
        Phase::Starting => plan.starting(),
        Phase::Running => plan.running(),
        Phase::Stopping => plan.stopping(),
        Phase::Succeeded | Phase::Failed | Phase::Cancelled => plan.ended(),
        Phase::Queued | Phase::Suspended | Phase::Other(_) => Step::Wait,
    }
}

fn is_wanted(run: &ContainerRun) -> bool {
    run.spec.priority > 0 && run.metadata.deletion_timestamp.is_none()
}

/// The first status of a run that nobody claimed yet. It must be a claim (R9), even if `spec.suspend` is set.
fn first(run: &ContainerRun, me: &Holder) -> Status {
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
    fn states(&self) -> impl Iterator<Item = &State> {
        self.view.rabbits.iter().map(|rabbit| &rabbit.state)
    }

    fn all(&self, is: impl Fn(&State) -> bool) -> bool {
        self.view.rabbits.iter().all(|rabbit| is(&rabbit.state))
    }

    fn any(&self, is: impl Fn(&State) -> bool) -> bool {
        self.states().any(is)
    }

    fn is_wanted(&self) -> bool {
        is_wanted(self.run)
    }

    fn runs(&self) -> bool {
        self.any(|state| {
            matches!(state, State::Preparing | State::Prepared | State::Starting | State::Ready)
        })
    }

    /// The next status, with the same claim.
    fn write(&self, phase: Phase, message: impl Into<String>) -> Step {
        Step::Write(self.next(&self.status.claim, phase, self.status.attempt, message.into()))
    }

    /// The next status, with a claim of this coordinator. A claim of what nobody works on is a new attempt; what runs goes on.
    fn claim(&self, phase: &Phase) -> Step {
        let epoch = self.status.claim.epoch.max(self.view.refused_with).saturating_add(1);
        let claim = ContainerRunClaim { holder: self.view.me.as_str().to_owned(), epoch };
        let is_new = *phase == Phase::Claimed && is_open(&self.status.phase);
        let attempt = self.status.attempt.saturating_add(i32::from(is_new));
        let message = if is_new { String::new() } else { self.status.message.clone() };
        Step::Write(self.next(&claim, phase.clone(), attempt, message))
    }

    fn next(
        &self,
        claim: &ContainerRunClaim,
        phase: Phase,
        attempt: i32,
        mut message: String,
    ) -> Status {
        // With the last lines of a log in it, it may be of any length.
        message.truncate(message.floor_char_boundary(MESSAGE));
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

    /// Nobody works on it: whoever comes first may claim it.
    fn open(&self) -> Step {
        if !self.is_wanted() {
            return self.claim(&Phase::Cancelled);
        }
        if self.run.spec.suspend { Step::Wait } else { self.claim(&Phase::Claimed) }
    }

    /// No container is made yet, so that it can end without one.
    fn claimed(&self) -> Step {
        if !self.is_wanted() {
            return self.write(Phase::Cancelled, "");
        }
        if self.run.spec.suspend {
            return self.write(Phase::Suspended, "");
        }
        if let Some(why) = self.trouble() {
            return self.give_back(&why);
        }
        if !self.view.rabbits.is_empty() && self.all(|state| *state == State::Prepared) {
            return self.write(Phase::Starting, "");
        }
        if self.any(|state| *state == State::Nothing) { Step::Prepare } else { Step::Wait }
    }

    /// Another coordinator, or this one, may claim it once more, until it was claimed too often.
    fn give_back(&self, why: &str) -> Step {
        if self.status.attempt < self.run.spec.max_claim_attempts {
            return self.write(Phase::Queued, why);
        }
        let attempts = self.status.attempt;
        self.write(Phase::Failed, format!("ClaimAttemptsExceeded after {attempts} attempts: {why}"))
    }

    fn starting(&self) -> Step {
        if !self.is_wanted() || self.run.spec.suspend {
            return self.write(Phase::Stopping, "");
        }
        if let Some(failed) = self.failed() {
            return failed;
        }
        if self.all(|state| matches!(state, State::Ready | State::Succeeded)) {
            return self.write(Phase::Running, "");
        }
        // A rabbit whose disk is new has nothing any more that its containers could start with.
        if self.any(|state| *state == State::Nothing) {
            return Step::Prepare;
        }
        let is_missing = self.any(|state| matches!(state, State::Preparing | State::Prepared));
        if is_missing { Step::Start } else { Step::Wait }
    }

    fn running(&self) -> Step {
        // What ended well before anybody ended it has ended well.
        if self.all(|state| *state == State::Succeeded) {
            return self.write(Phase::Succeeded, "");
        }
        if !self.is_wanted() || self.run.spec.suspend {
            return self.write(Phase::Stopping, "");
        }
        self.failed().unwrap_or(Step::Wait)
    }

    fn stopping(&self) -> Step {
        if self.runs() {
            return Step::Stop;
        }
        if self.any(|state| *state == State::Unknown) {
            return Step::Wait;
        }
        if !self.is_wanted() {
            return self.write(Phase::Cancelled, "");
        }
        if self.all(|state| *state == State::Succeeded) {
            return self.write(Phase::Succeeded, "");
        }
        // It was to wait; it goes on when it may.
        self.write(Phase::Suspended, "")
    }

    /// Nothing of it runs any more. What ended stays, with its logs, until the run is not wanted.
    fn ended(&self) -> Step {
        if self.runs() {
            return Step::Stop;
        }
        let is_there =
            |state: &State| matches!(state, State::Succeeded | State::Failed(_) | State::TooLate);
        if !self.is_wanted() && self.any(is_there) { Step::CleanUp } else { Step::Wait }
    }

    /// The failure of a run with containers: told once no rabbit is silent, since one that is may still run some.
    fn failed(&self) -> Option<Step> {
        if self.any(|state| *state == State::Unknown) {
            return Some(Step::Wait);
        }
        Some(self.write(Phase::Failed, self.trouble()?))
    }

    /// The failures of all rabbits, each with its rabbit; `None` while nothing failed. A missed deadline names the rabbits that are not ready.
    fn trouble(&self) -> Option<String> {
        let is_gone =
            |state: &State| self.status.phase == Phase::Running && *state == State::Nothing;
        let why = |state: &State| match state {
            State::Failed(why) => Some(why.clone()),
            State::TooLate => Some("was not ready in time".to_owned()),
            State::Lost => Some("is lost".to_owned()),
            state if is_gone(state) => Some("no container is left".to_owned()),
            _ => None,
        };
        let failures: Vec<String> = self
            .view
            .rabbits
            .iter()
            .filter_map(|rabbit| Some((&rabbit.name, why(&rabbit.state)?)))
            .map(|(name, why)| if name.is_empty() { why } else { format!("{name}: {why}") })
            .collect();
        (!failures.is_empty()).then(|| failures.join("; "))
    }
}

//! Carries out the plans of a movement: starts and ends `datamover`, and writes the status.

mod starts;

use std::{sync::Arc, time::Duration};

use agent::error::Failure;
use api::{
    NnfDataMovement, NnfDataMovementStatus,
    names::movement::FINALIZER,
    nnf_data_movement::{DataMovementState, DataMovementVerdict},
};
use controller::{Retry, describe, has_finalizer, patch::WriteError};
use daemon::chain;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use movement::report::Ended;
use storage::Rounds;

use self::starts::NotStarted;
use super::{
    Movers,
    desired::{Desired, Side, limit, uid_of},
    movers::{Owner, Snapshot},
    plan::{MovementStep, Waiting, Want, plan},
    report::{self, Finish, Reading},
};
use crate::core::{Context, Pass};

/// Maximum steps of one pass. Each step but the last changes the state that the next step is planned from.
const MAX_STEPS: usize = 8;

/// How long the agent waits before it checks again for a missing mount, profile or program. When another program mounts
/// a global file system, the agent receives no event.
const CHECK_AGAIN: Duration = Duration::from_secs(5);

/// The objects that a pass reads.
#[derive(Debug)]
pub struct MovementView {
    pub object: Arc<NnfDataMovement>,
    /// All movements of this rabbit that have not ended.
    pub waiting: Vec<Waiting>,
}

/// Carries out a movement as far as possible now. Removes the finalizer of a deleted object once its process has ended
/// and its files are removed.
pub async fn reconcile(
    context: &Context,
    view: &MovementView,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let movers = &context.movers;
    let object = &*view.object;
    let is_gone = object.metadata.deletion_timestamp.is_some();
    let is_over = if is_gone { !has_finalizer(object, FINALIZER) } else { object.is_finished() };
    if is_over {
        return Ok(());
    }
    let desired = match Desired::from_object(object, &context.site.roots) {
        Ok(desired) => desired,
        Err(_) if is_gone => return release_unreadable(context, movers, object, pass).await,
        Err(error) => return finish_invalid(context, object, chain(&error), pass).await,
    };
    let object = match is_gone {
        true => object.clone(),
        false => pass.with_finalizer(context, object, FINALIZER).await?,
    };
    let owner = Owner { uid: desired.uid, name: object.name_any(), user: object.spec.user_id };
    let want = match (is_gone, object.spec.cancel) {
        (true, _) => Want::Gone,
        (false, true) => Want::Cancelled,
        (false, false) => Want::Copy,
    };
    let run = Run { context, movers, waiting: &view.waiting, pass, object, desired, owner };
    run.run(want).await
}

/// Reports an invalid movement as finished.
async fn finish_invalid(
    context: &Context,
    object: &NnfDataMovement,
    why: String,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    let failure = Failure::input(why.clone());
    pass.add_failure(object, &failure);
    let error = context.resource_error(&failure, "");
    let finish = Finish::new(DataMovementVerdict::Invalid, why);
    let before = object.status.clone().unwrap_or_default();
    let status = report::finished(&before, &finish, None, (Timestamp::now(), 0), Some(error));
    pass.report(context, object, status).await
}

/// Releases a deleted object that has become invalid: kills its process and removes the finalizer.
async fn release_unreadable(
    context: &Context,
    movers: &Arc<Movers>,
    object: &NnfDataMovement,
    pass: &mut Pass,
) -> Result<(), WriteError> {
    if uid_of(object).is_ok() {
        movers.abandon(&object.name_any(), None);
    }
    pass.without_finalizer(context, object, FINALIZER).await
}

/// One pass over one movement.
struct Run<'a> {
    context: &'a Context,
    movers: &'a Arc<Movers>,
    waiting: &'a [Waiting],
    pass: &'a mut Pass,
    object: NnfDataMovement,
    desired: Desired,
    owner: Owner,
}

impl Run<'_> {
    async fn run(mut self, want: Want) -> Result<(), WriteError> {
        let mut rounds = Rounds::new(describe(&self.object), MAX_STEPS);
        loop {
            let snapshot = match self.blocking(|movers, owner| movers.snapshot(owner)).await {
                Ok(snapshot) => snapshot,
                Err(error) => return self.wait(&chain(&error), Retry::Later).await,
            };
            let step = plan(want, &snapshot.state, self.movers.limits());
            if let Err(error) = rounds.begin(&[step.to_string()]) {
                return self.report_trouble(&error.to_string(), Retry::Later).await;
            }
            match step {
                MovementStep::Start => {
                    if let Err(why) = self.start().await {
                        return self.wait_to_start(&why).await;
                    }
                }
                MovementStep::Cancel => self.movers.cancel(self.owner.uid),
                MovementStep::Kill => self.movers.kill(self.owner.uid),
                MovementStep::Clean => match self.clean().await {
                    Ok(()) => {}
                    Err(NotStarted::Locked(why)) => {
                        return self.report_trouble(&why, Retry::Soon).await;
                    }
                    Err(NotStarted::Turn(why) | NotStarted::Failed(why)) => {
                        self.movers.give_up_cleaning(self.owner.uid, why);
                    }
                },
                MovementStep::Wait(left) => {
                    self.plan_again(left);
                    return Ok(());
                }
                MovementStep::Follow => return self.follow(&snapshot).await,
                MovementStep::Stuck => return self.report_stuck().await,
                MovementStep::Finish(ended) => return self.finish(&snapshot, &ended).await,
                MovementStep::Fail(why) => return self.fail(&snapshot, why).await,
                MovementStep::FinishCancelled => return self.finish_cancelled(&snapshot).await,
                MovementStep::Release => return self.release(&snapshot).await,
            }
        }
    }

    fn plan_again(&mut self, left: Duration) {
        // Adds 1 ms, so that the limit has passed when the next pass begins.
        let left = SignedDuration::try_from(left).unwrap_or(SignedDuration::ZERO);
        self.pass.again = Some(Timestamp::now() + left + SignedDuration::from_millis(1));
    }

    fn status(&self) -> NnfDataMovementStatus {
        self.object.status.clone().unwrap_or_default()
    }

    async fn write(&mut self, status: NnfDataMovementStatus) -> Result<(), WriteError> {
        self.pass.report(self.context, &self.object, status).await
    }

    async fn wait_to_start(&mut self, why: &NotStarted) -> Result<(), WriteError> {
        match why {
            NotStarted::Turn(why) => self.wait(why, Retry::OnChange).await,
            NotStarted::Locked(why) => self.wait(why, Retry::Soon).await,
            NotStarted::Failed(why) => {
                self.plan_again(CHECK_AGAIN);
                self.wait(why, Retry::Later).await
            }
        }
    }

    /// Reports a failure in the message of the status, and leaves the state as it is.
    async fn report_trouble(&mut self, why: &str, retry: Retry) -> Result<(), WriteError> {
        let failure = Failure { retry, ..Failure::waiting(why.to_owned()) };
        self.pass.add_failure(&self.object, &failure);
        self.write(report::with_message(&self.status(), why)).await
    }

    /// Reports why a movement waits.
    async fn wait(&mut self, why: &str, retry: Retry) -> Result<(), WriteError> {
        if retry != Retry::OnChange {
            let failure = Failure { retry, ..Failure::waiting(why.to_owned()) };
            self.pass.add_failure(&self.object, &failure);
        }
        self.write(report::waiting(&self.status(), why)).await
    }

    /// Reports the progress of a running copy, at most as often as its profile says.
    async fn follow(&mut self, snapshot: &Snapshot) -> Result<(), WriteError> {
        match limit(&self.object) {
            Ok(limit) => self.movers.limit(self.owner.uid, limit),
            Err(error) => self.pass.add_failure(&self.object, &Failure::waiting(chain(&error))),
        }
        let began = snapshot.began.unwrap_or_else(Timestamp::now);
        let heard = snapshot.reading.map_or(began, |reading: Reading| reading.at);
        let silence = self.describe_silence(heard).await;
        let before = self.status();
        let is_running = before.state == Some(DataMovementState::Running);
        let last = before.command_status.last_message_time.filter(|_| is_running);
        if let (Some(last), Some(reading), None) = (last, &snapshot.reading, &silence) {
            let next = last.0.checked_add(snapshot.interval).unwrap_or(Timestamp::MAX);
            if last.0 < reading.at && reading.at < next {
                // Also if the profile turns progress off, a silent copy is described.
                self.pass.again = self.pass.again.into_iter().chain([next]).min();
                return Ok(());
            }
        }
        let status = report::running(&before, snapshot.reading.as_ref(), began, snapshot.restarts);
        let status = match silence {
            Some(message) => report::with_message(&status, &message),
            None => status,
        };
        self.write(status).await
    }

    /// Returns what `datamover` waits for if it has reported nothing for so long that it may hang; otherwise plans again
    /// then.
    async fn describe_silence(&mut self, heard: Timestamp) -> Option<String> {
        let silence = SignedDuration::try_from(self.movers.config.silence).unwrap_or_default();
        if Timestamp::now().duration_since(heard) < silence {
            self.pass.again = heard.checked_add(silence).ok();
            return None;
        }
        let standing = self.blocking(|movers, owner| movers.standing(owner.uid)).await;
        let path = |side: &Side| side.place.root.join(&side.place.path).display().to_string();
        let (source, destination) = (path(&self.desired.source), path(&self.desired.destination));
        Some(format!("no progress since {heard:.0} from {source} to {destination}: {standing}"))
    }

    async fn report_stuck(&mut self) -> Result<(), WriteError> {
        let standing = self.blocking(|movers, owner| movers.standing(owner.uid)).await;
        let why = format!("datamover has not ended although the agent killed it: {standing}");
        self.report_trouble(&why, Retry::OnChange).await
    }

    async fn finish(&mut self, snapshot: &Snapshot, ended: &Ended) -> Result<(), WriteError> {
        let failures = self.blocking(|movers, owner| movers.record(owner.uid).failures()).await;
        let allows_failures = ended.progress.failed > 0
            && self.profile().await.is_ok_and(|profile| profile.allow_failed_files);
        self.end(snapshot, report::judge(ended, failures, allows_failures)).await
    }

    async fn fail(&mut self, snapshot: &Snapshot, why: String) -> Result<(), WriteError> {
        self.end(snapshot, Finish::new(DataMovementVerdict::Failed, why)).await
    }

    async fn finish_cancelled(&mut self, snapshot: &Snapshot) -> Result<(), WriteError> {
        let leftovers = snapshot.cleaning_error.as_ref();
        let leftovers =
            leftovers.map(|why| format!("; temporary files may be left at the destination: {why}"));
        let message = format!("cancelled{}", leftovers.unwrap_or_default());
        self.end(snapshot, Finish::new(DataMovementVerdict::Cancelled, message)).await
    }

    async fn end(&mut self, snapshot: &Snapshot, finish: Finish) -> Result<(), WriteError> {
        let has_failed = finish.verdict == DataMovementVerdict::Failed;
        let error = has_failed.then(|| {
            let failure = Failure::input(finish.message.clone());
            self.pass.add_failure(&self.object, &failure);
            self.context.resource_error(&failure, "")
        });
        let end = snapshot.reading.map_or_else(Timestamp::now, |reading: Reading| reading.at);
        let reading = snapshot.reading.as_ref();
        let at = (end, snapshot.restarts);
        if !has_failed {
            log::info!("{}: {}", describe(&self.object), finish.verdict);
        }
        self.write(report::finished(&self.status(), &finish, reading, at, error)).await
    }

    async fn release(&mut self, snapshot: &Snapshot) -> Result<(), WriteError> {
        if let Some(why) = &snapshot.cleaning_error {
            log::warn!(
                "{}: temporary files may be left at the destination: {why}",
                describe(&self.object)
            );
        }
        let removed = self.blocking(|movers, owner| movers.record(owner.uid).remove()).await;
        if let Err(error) = removed {
            let why = format!("remove the state directory of the movement: {}", chain(&error));
            self.pass.add_failure(
                &self.object,
                &Failure { retry: Retry::Later, ..Failure::waiting(why) },
            );
            return Ok(());
        }
        self.movers.forget(self.owner.uid);
        self.pass.without_finalizer(self.context, &self.object, FINALIZER).await
    }
}

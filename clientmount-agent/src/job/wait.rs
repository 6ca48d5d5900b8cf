//! Waits until a job's mounts have reached the state that a script waits for, and reports the reason for the
//! wait to the script.

use std::{sync::Arc, time::Duration};

use jobs::describe;
use proto::v1::{JobName, JobNews, JobOutcome, JobState, OnTimeout, Verdict, job_news::News};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tonic::Status;

use super::{Evidence, Goal, Judgement, Request, judge, lines, timeout};
use crate::view::View;
use agent::{outbox::Outbox, questions::Question, site::Site};

/// Time that a fatal error must last before it is reported. A change may have removed the cause of the error already,
/// and the agent needs some time to work on the change.
const GRACE: Duration = Duration::from_secs(3);

/// The parts that all calls of scripts share.
#[derive(Debug, Clone)]
pub struct Shared {
    pub site: Site,
    pub view: Arc<View>,
    pub outbox: Arc<Outbox>,
    /// Requests to the agent's main loop.
    pub requests: mpsc::Sender<Request>,
    /// How the agent treats mounts in use at the deadline, if the script does not say.
    pub on_timeout: OnTimeout,
}

/// One call of a script.
#[derive(Debug, Clone)]
pub struct Call {
    pub job: JobName,
    pub goal: Goal,
    /// How long the script waits.
    pub deadline: Duration,
    /// How the agent treats mounts that are still in use at the deadline.
    pub on_timeout: OnTimeout,
}

/// Waits for the goal of the call, sends news to the script, and sends the outcome last. Ends early, without an
/// outcome, if the script ends the call.
pub async fn wait(call: Call, shared: Shared, stream: mpsc::Sender<Result<JobNews, Status>>) {
    tokio::select! {
        outcome = outcome(&call, &shared, &stream) => send(&stream, News::Outcome(outcome)).await,
        () = stream.closed() => {}
    }
}

async fn send(stream: &mpsc::Sender<Result<JobNews, Status>>, news: News) {
    // Sending fails when the script has ended the call.
    drop(stream.send(Ok(JobNews { news: Some(news) })).await);
}

async fn outcome(
    call: &Call,
    shared: &Shared,
    stream: &mpsc::Sender<Result<JobNews, Status>>,
) -> JobOutcome {
    let mut waiter = Waiter::new(call, shared);
    let mut last = String::new();
    let judgement = loop {
        let judgement = waiter.judge();
        let why = match &judgement {
            Judgement::Done(_) | Judgement::Impossible(..) => break judgement,
            Judgement::Waiting(_, why) | Judgement::Failing(_, why) => why,
        };
        if *why != last {
            last.clone_from(why);
            send(stream, News::Waiting(last.clone())).await;
        }
        if !waiter.wait_for_change(&judgement).await {
            break judgement;
        }
    };
    let judgement = match judgement {
        Judgement::Waiting(..) | Judgement::Failing(..) if call.goal == Goal::Unmounted => {
            timeout::apply_on_timeout(&mut waiter).await.unwrap_or(judgement)
        }
        other => other,
    };
    waiter.report(judgement)
}

/// The sources of the judgement on one call.
#[derive(Debug)]
pub(super) struct Waiter<'a> {
    pub(super) call: &'a Call,
    pub(super) shared: &'a Shared,
    question: Question,
    view: tokio::sync::watch::Receiver<()>,
    deadline: Instant,
    /// Time at which the judgement became `Failing`; `None` while the judgement is another one.
    failing: Option<Instant>,
}

impl<'a> Waiter<'a> {
    fn new(call: &'a Call, shared: &'a Shared) -> Self {
        Self {
            call,
            shared,
            question: Question::ask(&shared.outbox, Some(call.job.clone())),
            view: shared.view.changes(),
            deadline: Instant::now() + call.deadline,
            failing: None,
        }
    }

    /// Returns the coordinator's newest answer.
    pub(super) fn state(&mut self) -> Option<JobState> {
        self.question.answer.borrow_and_update().clone()
    }

    pub(super) fn judge(&mut self) -> Judgement {
        self.view.borrow_and_update();
        let state = self.state();
        let viewed = self.shared.view.objects_of_job(&self.call.job, state.as_ref());
        judge(
            self.call.goal,
            &Evidence {
                job: &self.call.job,
                state: state.as_ref(),
                connected: self.shared.outbox.is_connected(),
                viewed: &viewed,
                activity: self.shared.view.activity(),
            },
        )
    }

    /// Waits for a change; returns `false` at the deadline, or when a failure has lasted long enough.
    async fn wait_for_change(&mut self, judgement: &Judgement) -> bool {
        let now = Instant::now();
        self.failing = match judgement {
            Judgement::Failing(..) => Some(self.failing.unwrap_or(now)),
            _ => None,
        };
        let reported_at = self.failing.map_or(self.deadline, |since| since + GRACE);
        let until = reported_at.min(self.deadline);
        if now >= until {
            return false;
        }
        tokio::select! {
            biased;
            _ = self.question.answer.changed() => {}
            _ = self.view.changed() => {}
            () = sleep_until(until) => {}
        }
        true
    }

    /// Waits for a change of the agent's view or of the coordinator's answer; returns `false` if there
    /// is none before `until`.
    pub(super) async fn until(&mut self, until: Instant) -> bool {
        tokio::select! {
            _ = self.question.answer.changed() => true,
            _ = self.view.changed() => true,
            () = sleep_until(until) => false,
        }
    }

    fn report(&mut self, judgement: Judgement) -> JobOutcome {
        let job = self.state();
        let viewed = self.shared.view.objects_of_job(&self.call.job, job.as_ref());
        let mounts = lines(&viewed, job.as_ref(), &self.shared.site);
        let (verdict, message, remedy) = match judgement {
            Judgement::Done(why) => (Verdict::Done, why, ""),
            Judgement::Impossible(verdict, why, remedy) => (verdict, why, remedy),
            Judgement::Failing(verdict, why) | Judgement::Waiting(verdict, why) => {
                let name = describe(&self.call.job);
                (verdict, format!("{name}: {why}"), remedy(verdict))
            }
        };
        JobOutcome { verdict: verdict.into(), message, remedy: remedy.to_owned(), job, mounts }
    }
}

fn remedy(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Unreachable => {
            "check that the coordinator runs, and read in the agent's log why the agent cannot reach it; until then this node's own view may be out of date"
        }
        Verdict::NotYet => "try again, or look at `warren mounts` and at the Workflow",
        Verdict::NodeFault => "look at the agent's log and docs/operate/messages.md",
        Verdict::StorageFault => "look at the Workflow and its objects with `warren get`",
        Verdict::Done | Verdict::Failed | Verdict::BadRequest | Verdict::Cancelled => "",
    }
}

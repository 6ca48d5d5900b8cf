//! Waits until a job's mounts are where a script wants them, and reports what it waits for.

use std::{sync::Arc, time::Duration};

use jobs::shown;
use proto::v1::{JobName, JobNews, JobOutcome, JobState, OnTimeout, Verdict, job_news::News};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tonic::Status;

use super::{Evidence, Goal, Judged, Request, judge, lines, timeout};
use crate::view::View;
use agent::{outbox::Outbox, questions::Question, site::Site};

/// A fatal error is reported once it has lasted this long: it may be older than the change that resolves it.
const GRACE: Duration = Duration::from_secs(3);

#[derive(Debug, Clone)]
pub struct Shared {
    pub site: Site,
    pub view: Arc<View>,
    pub outbox: Arc<Outbox>,
    pub requests: mpsc::Sender<Request>,
    /// What the agent does with a mount in use at the end, where a script does not say.
    pub on_timeout: OnTimeout,
}

#[derive(Debug, Clone)]
pub struct Ask {
    pub job: JobName,
    pub goal: Goal,
    pub deadline: Duration,
    /// What the agent does with a mount that is still in use then.
    pub on_timeout: OnTimeout,
}

/// Waits, and sends the outcome last; ends without one when the script has ended the call.
pub async fn wait(ask: Ask, shared: Shared, news: mpsc::Sender<Result<JobNews, Status>>) {
    tokio::select! {
        outcome = outcome(&ask, &shared, &news) => send(&news, News::Outcome(outcome)).await,
        () = news.closed() => {}
    }
}

async fn send(news: &mpsc::Sender<Result<JobNews, Status>>, word: News) {
    // It fails when the script has ended the call.
    drop(news.send(Ok(JobNews { news: Some(word) })).await);
}

async fn outcome(
    ask: &Ask,
    shared: &Shared,
    news: &mpsc::Sender<Result<JobNews, Status>>,
) -> JobOutcome {
    let mut watching = Watching::new(ask, shared);
    let mut last = String::new();
    let judged = loop {
        let judged = watching.judge();
        let why = match &judged {
            Judged::Done(_) | Judged::Over(..) => break judged,
            Judged::Waiting(_, why) | Judged::Failing(_, why) => why,
        };
        if *why != last {
            last.clone_from(why);
            send(news, News::Waiting(last.clone())).await;
        }
        if !watching.changed(&judged).await {
            break judged;
        }
    };
    let judged = match judged {
        Judged::Waiting(..) | Judged::Failing(..) if ask.goal == Goal::Unmounted => {
            timeout::act(&mut watching).await.unwrap_or(judged)
        }
        other => other,
    };
    watching.report(judged)
}

/// The sources of one call's judgement.
#[derive(Debug)]
pub(super) struct Watching<'a> {
    pub(super) ask: &'a Ask,
    pub(super) shared: &'a Shared,
    question: Question,
    view: tokio::sync::watch::Receiver<()>,
    deadline: Instant,
    /// Since when there is a failure that only a change resolves.
    failing: Option<Instant>,
}

impl<'a> Watching<'a> {
    fn new(ask: &'a Ask, shared: &'a Shared) -> Self {
        Self {
            ask,
            shared,
            question: Question::ask(&shared.outbox, Some(ask.job.clone())),
            view: shared.view.changes(),
            deadline: Instant::now() + ask.deadline,
            failing: None,
        }
    }

    pub(super) fn state(&mut self) -> Option<JobState> {
        self.question.answer.borrow_and_update().clone()
    }

    pub(super) fn judge(&mut self) -> Judged {
        self.view.borrow_and_update();
        let state = self.state();
        let seen = self.shared.view.of_job(&self.ask.job, state.as_ref());
        judge(
            self.ask.goal,
            &Evidence {
                job: &self.ask.job,
                state: state.as_ref(),
                connected: self.shared.outbox.connected(),
                seen: &seen,
                activity: self.shared.view.activity(),
            },
        )
    }

    /// Waits for a change; false when there is no more time, or a failure has lasted long enough.
    async fn changed(&mut self, judged: &Judged) -> bool {
        let now = Instant::now();
        self.failing = match judged {
            Judged::Failing(..) => Some(self.failing.unwrap_or(now)),
            _ => None,
        };
        let reported = self.failing.map_or(self.deadline, |since| since + GRACE);
        let until = reported.min(self.deadline);
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

    /// Waits for a change of the agent's view, until then.
    pub(super) async fn until(&mut self, until: Instant) -> bool {
        tokio::select! {
            _ = self.question.answer.changed() => true,
            _ = self.view.changed() => true,
            () = sleep_until(until) => false,
        }
    }

    fn report(&mut self, judged: Judged) -> JobOutcome {
        let job = self.state();
        let seen = self.shared.view.of_job(&self.ask.job, job.as_ref());
        let mounts = lines(&seen, job.as_ref(), &self.shared.site);
        let (verdict, message, remedy) = match judged {
            Judged::Done(why) => (Verdict::Done, why, ""),
            Judged::Over(verdict, why, remedy) => (verdict, why, remedy),
            Judged::Failing(verdict, why) | Judged::Waiting(verdict, why) => {
                let name = shown(&self.ask.job);
                (verdict, format!("{name}: {why}"), remedy(verdict))
            }
        };
        JobOutcome { verdict: verdict.into(), message, remedy: remedy.to_owned(), job, mounts }
    }
}

fn remedy(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Unreachable => {
            "what is shown is this node's own view, and may not be what is wanted: is the coordinator up, and does the agent's log tell why it does not reach it?"
        }
        Verdict::NotYet => "try again, or look at `warren mounts` and at the Workflow",
        Verdict::NodeFault => "look at the agent's log and docs/messages.md",
        Verdict::StorageFault => "look at the Workflow and its objects with `warren get`",
        Verdict::Done | Verdict::Failed | Verdict::BadRequest | Verdict::Cancelled => "",
    }
}

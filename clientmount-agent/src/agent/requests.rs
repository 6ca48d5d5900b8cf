//! Shows scripts what the agent knows and does, and handles the requests of scripts.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use proto::v1::PlanQuestion;
use storage::template::SiteCommand;
use tokio::sync::mpsc;

use super::{Activity, Agent, Request, View};
use crate::serve::NodeService;
use agent::{
    desired::{Goal, MountUnits},
    reconcile::Work,
};

impl Agent {
    /// Makes the agent serve scripts: they read the agent's knowledge in `view`, and send requests through `requests`.
    #[must_use]
    pub fn serving(mut self, view: Arc<View>, requests: mpsc::Receiver<Request>) -> Self {
        (self.view, self.requests) = (view, Some(requests));
        for uid in self.objects.uids() {
            self.show(&uid);
        }
        self
    }

    /// Makes the agent answer the coordinator's requests for plans.
    #[must_use]
    pub fn planning(mut self, service: NodeService) -> Self {
        self.planner = Some(service);
        self
    }

    /// Answers an operator's request for a plan, which the coordinator passed on.
    pub(super) fn plan(&self, question: PlanQuestion) {
        let Some(planner) = self.planner.clone() else { return };
        let outbox = Arc::clone(&self.outbox);
        drop(tokio::spawn(async move {
            let planned = planner.plan_request(&question.request.unwrap_or_default()).await;
            outbox.answer_plan(question.id, planned);
        }));
    }

    /// Updates the object in the view that scripts read.
    pub(super) fn show(&self, uid: &str) {
        if let Some((received, gone)) = self.objects.get(uid) {
            self.view.record_received(uid, received, gone);
        }
    }

    /// Updates the agent's activity in the view that scripts read.
    pub(super) fn show_activity(&self) {
        let idle = self.queue.is_idle() && self.workers.is_empty();
        self.view.set_activity(Activity { cleaned_up: self.clean_up.is_done(), idle });
    }

    /// Handles a request of a script.
    pub(super) fn handle_request(&mut self, request: Request) {
        let uids = match request {
            Request::StartPass(uids) => uids,
            Request::Detach { uids, until } => {
                self.detaching.extend(uids.iter().map(|uid| (uid.clone(), until)));
                uids
            }
        };
        for uid in uids.into_iter().filter(|uid| self.objects.contains(uid)) {
            self.queue.wake(uid);
        }
    }

    /// Returns the work on an object. If a script requested that the object's next pass detaches mounts, and this pass
    /// begins in time, the work detaches mounts instead of unmounting them.
    pub(super) fn with_detach(&mut self, uid: &str, work: Work, now: Instant) -> Work {
        if self.detaching.remove(uid).is_none_or(|until| now > until) {
            return work;
        }
        let units = work.units.map(|units| Arc::new(with_lazy_umount(&units)));
        Work { units, ..work }
    }
}

/// Waits for the next request. Never returns if no socket serves scripts.
pub(super) async fn next(requests: &mut Option<mpsc::Receiver<Request>>) -> Request {
    let next = match requests {
        Some(requests) => requests.recv().await,
        None => None,
    };
    match next {
        Some(request) => request,
        None => std::future::pending().await,
    }
}

/// Returns the units of work with `umount --lazy` in place of the profile's own unmount commands. The rules for the
/// outcome stay: an object counts as unmounted only when its devices are free.
fn with_lazy_umount(units: &MountUnits) -> MountUnits {
    let mut units = units.clone();
    if units.goal != Goal::Unmounted {
        return units;
    }
    for mount in units.mounts.iter_mut().flatten().filter(|mount| mount.unmount.is_some()) {
        let line = format!("--lazy {}", shell_words::quote(&mount.target.to_string()));
        let lazy = SiteCommand::new("--on-timeout lazy", &line, BTreeMap::new());
        mount.unmount = lazy.ok().flatten().or(mount.unmount.take());
    }
    units
}

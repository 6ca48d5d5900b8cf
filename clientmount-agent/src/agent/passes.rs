//! Begins passes on objects, and handles their outcomes. A pass is one attempt to bring an object's mounts
//! into the desired state.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use agent::{
    error::Failure,
    reconcile::{Outcome, Work, WorkResult},
};
use controller::{Retry, Standing};
use storage::caught;

use super::{Agent, WorkerResult};

impl Agent {
    /// Begins a pass on an object, in a thread that may block.
    pub(super) fn start_object(&mut self, uid: &str, now: Instant) {
        match self.objects.work(uid) {
            Some(Work { dropped, units: Err(outcome), .. })
                if dropped.is_empty() && !outcome.is_done() =>
            {
                let result = WorkResult { outcome, unmounted: Vec::new() };
                self.worker_finished(WorkerResult::Object { uid: uid.to_owned(), result }, now);
            }
            Some(work) => {
                let work = self.with_detach(uid, work, now);
                let (uid, converger) = (uid.to_owned(), Arc::clone(&self.converger));
                let records = Arc::clone(&self.records);
                let refused = work.refusal();
                self.workers.spawn_blocking(move || {
                    let result = caught(|| work.carry_out(&converger, &records));
                    let result = result.unwrap_or_else(|panicked| WorkResult {
                        outcome: refused(Failure::of_panic(&panicked)),
                        unmounted: Vec::new(),
                    });
                    WorkerResult::Object { result, uid }
                });
            }
            None => self.queue.forget(&uid.to_owned()),
        }
    }

    /// Handles the end of a pass on an object.
    pub(super) fn end_pass(&mut self, uid: &str, result: &WorkResult, now: Instant) {
        let outcome = &result.outcome;
        // Records which dropped mounts were unmounted, even if the object changed meanwhile: the agent must not unmount
        // a dropped mount twice.
        for other in self.objects.dropped_unmounted(uid, result) {
            self.queue.wake(other);
        }
        if self.queue.finished(&uid.to_owned(), outcome.retry().unwrap_or(Retry::OnChange), now)
            == Standing::Superseded
        {
            return;
        }
        self.view.pass_ended(uid, outcome, SystemTime::now());
        self.holders.set(&uid.to_owned(), outcome.holders());
        self.log_failure(uid, outcome);
        if let Some(report) = self.objects.report(uid, outcome) {
            self.outbox.put(report);
        }
        let may_have_unnamed_mounts = self.objects.may_have_unnamed_mounts(uid);
        // The clean-up removes the object's mounts whose paths the agent does not know.
        if self.objects.has_unknown_path(uid) && !outcome.is_done() {
            self.clean_up.request_again();
        }
        for other in self.objects.record_outcome(uid, outcome) {
            self.queue.wake(other);
        }
        if !self.objects.contains(uid) {
            if may_have_unnamed_mounts {
                self.clean_up.request_again();
            }
            self.failing.remove(uid);
            self.queue.forget(&uid.to_owned());
            self.outbox.forget(uid);
            self.view.forget(uid);
        }
    }

    /// Logs a failure once, even if later retries fail in the same way.
    fn log_failure(&mut self, uid: &str, outcome: &Outcome) {
        let error = agent::report::error(&self.site.node, &outcome.failures);
        let unreadable = || agent::report::unreadable(outcome);
        match error.map(|error| error.debug_message).or_else(unreadable) {
            Some(text) => {
                let name = self.objects.name(uid);
                if self.failing.insert(uid.to_owned(), text.clone()).as_ref() != Some(&text) {
                    log::warn!(object = name.as_str(); "ClientMount {name}: {text}");
                }
            }
            None => drop(self.failing.remove(uid)),
        }
    }
}

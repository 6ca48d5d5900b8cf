//! The agent's main loop: takes events of objects, starts a worker for each object, reports what the workers did.
//!
//! The agent mounts and unmounts nothing before it knows every object that exists. Then it removes mounts of Warren's that no object
//! asks for (the clean-up); until the clean-up has ended the agent works only on objects whose paths it leaves alone.

mod objects;
mod requests;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use controller::{Queue, Retry, Standing};
use daemon::End;
use proto::v1::{Health, health};
use storage::{Converger, Desired, caught, desired::MountPoint};
use tokio::{sync::mpsc, task::JoinSet, time};

use crate::{
    job::Request,
    view::{Activity, View},
};
use agent::{
    clean_up::CleanUp,
    error::Failure,
    holders::Holders,
    link::LinkEvent,
    outbox::Outbox,
    reconcile::{Work, Worked},
    records::MountRecords,
    site::Site,
};
use objects::Objects;

/// How long running steps may take to end when the agent is stopped.
const GRACE: Duration = Duration::from_secs(10);

enum WorkerResult {
    Mounts { uid: String, worked: Worked },
    CleanedUp(Result<(), Failure>),
}

/// The state of the agent; [`Agent::run`] is its main loop.
#[derive(Debug)]
pub struct Agent {
    site: Site,
    converger: Arc<Converger>,
    records: Arc<MountRecords>,
    outbox: Arc<Outbox>,
    objects: Objects,
    queue: Queue<String>,
    clean_up: CleanUp,
    kept_paths: BTreeSet<MountPoint>,
    workers: JoinSet<WorkerResult>,
    failing: BTreeMap<String, String>,
    /// Waits for the end of processes that keep an object's mounts in use.
    holders: Holders<String>,
    view: Arc<View>,
    /// What scripts ask for; none when nobody serves them.
    requests: Option<mpsc::Receiver<Request>>,
    /// Objects whose next pass detaches what it cannot unmount, if it begins before that time.
    detaching: BTreeMap<String, Instant>,
}

impl Agent {
    /// An agent that knows what the one before it recorded.
    pub fn new(
        site: Site,
        converger: Arc<Converger>,
        records: Arc<MountRecords>,
        outbox: Arc<Outbox>,
    ) -> Self {
        let objects = Objects::new(site.clone(), records.found().to_vec());
        let health = Health { state: health::State::Ok.into(), ..Health::default() };
        outbox.set_health(health);
        Self {
            site,
            converger,
            records,
            outbox,
            objects,
            queue: Queue::new(usize::MAX),
            clean_up: CleanUp::default(),
            kept_paths: BTreeSet::new(),
            workers: JoinSet::new(),
            failing: BTreeMap::new(),
            holders: Holders::default(),
            view: Arc::default(),
            requests: None,
            detaching: BTreeMap::new(),
        }
    }

    /// Works until `stop` is ready, then lets running steps end and leaves everything mounted.
    pub async fn run(
        mut self,
        mut events: mpsc::Receiver<LinkEvent>,
        stop: impl Future<Output = ()>,
    ) -> End {
        tokio::pin!(stop);
        let end = loop {
            self.start(Instant::now());
            self.show_activity();
            let due = self.next_due();
            tokio::select! {
                () = &mut stop => break End::Stopped,
                event = events.recv() => match event {
                    Some(LinkEvent::Refused(why)) => break End::Refused(why),
                    Some(event) => self.event(event),
                    None => break End::Stopped,
                },
                Some(result) = self.workers.join_next() => match result {
                    Ok(result) => self.worker_finished(result, Instant::now()),
                    // Workers catch panics of work on an object or a clean-up; this one is another.
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                uid = self.holders.ended() => self.queue.wake(uid),
                request = requests::next(&mut self.requests) => self.requested(request),
                () = time::sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {}
            }
        };
        self.finish().await;
        end
    }

    /// Waits for running workers. Those that take longer than [`GRACE`] are killed with the agent.
    async fn finish(&mut self) {
        let finishing = async {
            while let Some(result) = self.workers.join_next().await {
                match result {
                    Ok(WorkerResult::Mounts { uid, .. }) => self.queue.forget(&uid),
                    Ok(WorkerResult::CleanedUp(_)) => self.clean_up.done(),
                    Err(_) => {}
                }
            }
        };
        if time::timeout(GRACE, finishing).await.is_err() {
            let objects =
                self.queue.running().map(|uid| format!("ClientMount {}", self.objects.name(uid)));
            let clean_up =
                self.clean_up.running().then(|| "mounts that no object wants".to_owned());
            let named: Vec<_> = objects.chain(clean_up).collect();
            log::warn!(
                "work on {} did not end within {} s: its commands are killed, and the next start goes on from what they left",
                named.join(", "),
                GRACE.as_secs()
            );
            self.workers.detach_all();
        }
    }

    fn event(&mut self, event: LinkEvent) {
        let woken = match event {
            LinkEvent::Up => {
                self.objects.begin();
                Vec::new()
            }
            LinkEvent::Desired(desired) => self.objects.desired(*desired),
            LinkEvent::Gone(gone) => self.objects.gone(&gone),
            LinkEvent::Synced => {
                let woken = self.objects.synced();
                self.clean_up.synced();
                woken
            }
            LinkEvent::Down => {
                self.objects.interrupted();
                Vec::new()
            }
            LinkEvent::Refused(_) => Vec::new(),
        };
        if !woken.is_empty() {
            self.clean_up.changed();
        }
        for uid in woken {
            self.show(&uid);
            self.queue.wake(uid);
        }
    }

    /// Starts what is due. While the clean-up runs, only objects start whose paths it leaves alone: it could take other new
    /// mounts for unwanted ones.
    fn start(&mut self, now: Instant) {
        if !self.clean_up.started() {
            return;
        }
        if self.clean_up.due(now) && self.may_clean_up() {
            self.start_clean_up();
        }
        loop {
            let due = self.queue.start(now, |uid| {
                !self.clean_up.running() || self.objects.is_within(uid, &self.kept_paths)
            });
            if due.is_empty() {
                return;
            }
            for uid in due {
                self.start_one(&uid, now);
            }
        }
    }

    /// The clean-up starts only while no worker runs: it could take what a worker is about to mount for unwanted.
    fn may_clean_up(&self) -> bool {
        self.workers.is_empty()
    }

    fn start_one(&mut self, uid: &str, now: Instant) {
        match self.objects.work(uid) {
            Some(Work { dropped, now: Err(outcome), .. })
                if dropped.is_empty() && !outcome.done() =>
            {
                let worked = Worked { outcome, gone: Vec::new() };
                self.worker_finished(WorkerResult::Mounts { uid: uid.to_owned(), worked }, now);
            }
            Some(work) => {
                let work = self.detached(uid, work, now);
                let (uid, converger) = (uid.to_owned(), Arc::clone(&self.converger));
                let records = Arc::clone(&self.records);
                let refused = work.refusal();
                self.workers.spawn_blocking(move || {
                    let worked = caught(|| work.carry_out(&converger, &records));
                    let worked = worked.unwrap_or_else(|panicked| Worked {
                        outcome: refused(Failure::of_panic(&panicked)),
                        gone: Vec::new(),
                    });
                    WorkerResult::Mounts { worked, uid }
                });
            }
            None => self.queue.forget(&uid.to_owned()),
        }
    }

    fn start_clean_up(&mut self) {
        let Some(keep) = self.paths_to_keep() else { return };
        self.clean_up.begin();
        self.kept_paths = keep.iter().cloned().collect();
        let converger = Arc::clone(&self.converger);
        self.workers.spawn_blocking(move || {
            let cleaned_up = converger.converge(&Desired::OnlyMounts(keep));
            WorkerResult::CleanedUp(
                cleaned_up.map(drop).map_err(|error| Failure::of_convergence(&error)),
            )
        });
    }

    /// Every path at which an object may be mounted; `None` when an object cannot be read.
    fn paths_to_keep(&mut self) -> Option<Vec<MountPoint>> {
        let keep = self.objects.possible_paths();
        if keep.is_none() {
            let why = "an object cannot be read, so its mounts cannot be told";
            if self.clean_up.postpone(why) {
                log::warn!("unwanted mounts are not looked for: {why}");
            }
        }
        keep
    }

    fn worker_finished(&mut self, result: WorkerResult, now: Instant) {
        match result {
            WorkerResult::Mounts { uid, worked } => self.converged(&uid, &worked, now),
            WorkerResult::CleanedUp(result) => self.cleaned_up(result, now),
        }
        self.report_health();
    }

    fn converged(&mut self, uid: &str, worked: &Worked, now: Instant) {
        let outcome = &worked.outcome;
        // Also when the object changed meanwhile: the agent must not unmount again what is gone.
        for other in self.objects.dropped_gone(uid, worked) {
            self.queue.wake(other);
        }
        if self.queue.finished(&uid.to_owned(), outcome.retry().unwrap_or(Retry::OnChange), now)
            == Standing::Superseded
        {
            return;
        }
        self.view.worked(uid, outcome, SystemTime::now());
        self.holders.set(&uid.to_owned(), outcome.holders());
        let error = agent::report::error(&self.site.node, &outcome.failures);
        let unreadable = || agent::report::unreadable(outcome);
        match error.map(|error| error.debug_message).or_else(unreadable) {
            Some(text) => {
                let name = self.objects.name(uid);
                // The log names a failure once, however often a retry fails with it.
                if self.failing.insert(uid.to_owned(), text.clone()).as_ref() != Some(&text) {
                    log::warn!(object = name.as_str(); "ClientMount {name}: {text}");
                }
            }
            None => drop(self.failing.remove(uid)),
        }
        if let Some(report) = self.objects.report(uid, outcome) {
            self.outbox.put(report);
        }
        let may_have_unnamed_mounts = self.objects.may_have_unnamed_mounts(uid);
        // The clean-up removes what the object has mounted at a path that is not known.
        if self.objects.has_unknown_path(uid) && !outcome.done() {
            self.clean_up.request_again();
        }
        for other in self.objects.finished(uid, outcome) {
            self.queue.wake(other);
        }
        if !self.objects.knows(uid) {
            if may_have_unnamed_mounts {
                self.clean_up.request_again();
            }
            self.failing.remove(uid);
            self.queue.forget(&uid.to_owned());
            self.outbox.forget(uid);
            self.view.forget(uid);
        }
    }

    fn cleaned_up(&mut self, result: Result<(), Failure>, now: Instant) {
        match result {
            Ok(()) => self.clean_up.done(),
            Err(failure) => {
                let text = failure.debug;
                if self.clean_up.failed(&text, now) {
                    log::warn!("unwanted mounts remain: {text}");
                }
            }
        }
    }

    fn next_due(&self) -> Option<Instant> {
        // Where a clean-up must wait for the workers, the last of them to come back wakes the loop.
        let clean_up = self.clean_up.next_due().filter(|_| self.may_clean_up());
        [self.queue.deadline(), clean_up].into_iter().flatten().min()
    }

    fn report_health(&self) {
        let clean_up = self.clean_up.failure().map(|why| format!("unwanted mounts remain: {why}"));
        let objects = self
            .failing
            .iter()
            .map(|(uid, why)| format!("ClientMount {}: {why}", self.objects.name(uid)));
        let problems: Vec<_> = objects.chain(clean_up).collect();
        let (state, message) = match &*problems {
            [] => (health::State::Ok, String::new()),
            [one] => (health::State::Warning, one.clone()),
            [first, more @ ..] => {
                (health::State::Warning, format!("{first} (and {} more)", more.len()))
            }
        };
        self.outbox.set_health(Health { state: state.into(), message, ..Health::default() });
    }
}

#[cfg(test)]
mod tests;

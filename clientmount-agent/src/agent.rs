//! The one owner of what is wanted of this node: takes events, starts workers, reports what they bring back.
//!
//! Nothing is mounted or unmounted before the coordinator has told everything that exists. Then mounts of ours that no object
//! wants are removed; until that has ended only those paths are worked on that it leaves alone.

mod objects;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use controller::{Queue, Retry, Standing};
use daemon::End;
use proto::v1::{Health, health};
use storage::{Converger, Desired, caught, desired::MountPoint};
use tokio::{sync::mpsc, task::JoinSet, time};

use agent::{
    error::Failure,
    holders::Holders,
    link::LinkEvent,
    outbox::Outbox,
    reconcile::{Work, Worked},
    records::MountRecords,
    site::Site,
    sweep::Sweep,
};
use objects::Objects;

/// How long running steps may take to end when the agent is stopped.
const GRACE: Duration = Duration::from_secs(10);

enum Back {
    Mounts { uid: String, worked: Worked },
    Swept(Result<(), Failure>),
}

/// See the module.
#[derive(Debug)]
pub struct Agent {
    site: Site,
    converger: Arc<Converger>,
    records: Arc<MountRecords>,
    outbox: Arc<Outbox>,
    objects: Objects,
    queue: Queue<String>,
    sweep: Sweep,
    /// What the sweep that runs leaves alone.
    kept: BTreeSet<MountPoint>,
    workers: JoinSet<Back>,
    failing: BTreeMap<String, String>,
    /// Who keeps an object's mounts in use.
    holders: Holders<String>,
}

impl Agent {
    /// An agent that knows what the one before it recorded.
    #[must_use]
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
            sweep: Sweep::default(),
            kept: BTreeSet::new(),
            workers: JoinSet::new(),
            failing: BTreeMap::new(),
            holders: Holders::default(),
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
            let due = self.next_due();
            tokio::select! {
                () = &mut stop => break End::Stopped,
                event = events.recv() => match event {
                    Some(LinkEvent::Refused(why)) => break End::Refused(why),
                    Some(event) => self.event(event),
                    None => break End::Stopped,
                },
                Some(back) = self.workers.join_next() => match back {
                    Ok(back) => self.back(back, Instant::now()),
                    // What a worker does for an object or a sweep is caught there.
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                uid = self.holders.ended() => self.queue.wake(uid),
                () = time::sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {}
            }
        };
        self.finish().await;
        end
    }

    /// Lets what runs come to an end. What does not is killed with the agent.
    async fn finish(&mut self) {
        let finishing = async {
            while let Some(back) = self.workers.join_next().await {
                match back {
                    Ok(Back::Mounts { uid, .. }) => self.queue.forget(&uid),
                    Ok(Back::Swept(_)) => self.sweep.done(),
                    Err(_) => {}
                }
            }
        };
        if time::timeout(GRACE, finishing).await.is_err() {
            let objects =
                self.queue.running().map(|uid| format!("ClientMount {}", self.objects.name(uid)));
            let sweep = self.sweep.running().then(|| "mounts that no object wants".to_owned());
            let named: Vec<_> = objects.chain(sweep).collect();
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
                self.sweep.synced();
                woken
            }
            LinkEvent::Down => {
                self.objects.interrupted();
                Vec::new()
            }
            LinkEvent::Refused(_) => Vec::new(),
        };
        if !woken.is_empty() {
            self.sweep.changed();
        }
        for uid in woken {
            self.queue.wake(uid);
        }
    }

    /// Starts what is due. While unwanted mounts are being removed nothing is mounted but where they are left alone: it could
    /// be taken for one.
    fn start(&mut self, now: Instant) {
        if !self.sweep.started() {
            return;
        }
        if self.sweep.due(now) && self.may_sweep() {
            self.start_sweep();
        }
        loop {
            let due = self
                .queue
                .start(now, |uid| !self.sweep.running() || self.objects.is_within(uid, &self.kept));
            if due.is_empty() {
                return;
            }
            for uid in due {
                self.start_one(&uid, now);
            }
        }
    }

    /// Workers remove unwanted mounts between other work, which may be about to mount.
    fn may_sweep(&self) -> bool {
        self.workers.is_empty()
    }

    fn start_one(&mut self, uid: &str, now: Instant) {
        match self.objects.work(uid) {
            Some(Work { former, now: Err(outcome), .. })
                if former.is_empty() && !outcome.done() =>
            {
                let worked = Worked { outcome, gone: Vec::new() };
                self.back(Back::Mounts { uid: uid.to_owned(), worked }, now);
            }
            Some(work) => {
                let (uid, converger) = (uid.to_owned(), Arc::clone(&self.converger));
                let records = Arc::clone(&self.records);
                let refused = work.refusal();
                self.workers.spawn_blocking(move || {
                    let worked = caught(|| work.carry_out(&converger, &records));
                    let worked = worked.unwrap_or_else(|panicked| Worked {
                        outcome: refused(Failure::of_panic(&panicked)),
                        gone: Vec::new(),
                    });
                    Back::Mounts { worked, uid }
                });
            }
            None => self.queue.forget(&uid.to_owned()),
        }
    }

    fn start_sweep(&mut self) {
        let Some(keep) = self.paths_to_keep() else { return };
        self.sweep.begin();
        self.kept = keep.iter().cloned().collect();
        let converger = Arc::clone(&self.converger);
        self.workers.spawn_blocking(move || {
            let swept = converger.converge(&Desired::OnlyMounts(keep));
            Back::Swept(swept.map(drop).map_err(|error| Failure::of_convergence(&error)))
        });
    }

    /// What may be mounted; `None` when that cannot be told.
    fn paths_to_keep(&mut self) -> Option<Vec<MountPoint>> {
        let keep = self.objects.possible_paths();
        if keep.is_none() {
            let why = "an object cannot be read, so its mounts cannot be told";
            if self.sweep.put_off(why) {
                log::warn!("unwanted mounts are not looked for: {why}");
            }
        }
        keep
    }

    fn back(&mut self, back: Back, now: Instant) {
        match back {
            Back::Mounts { uid, worked } => self.converged(&uid, &worked, now),
            Back::Swept(result) => self.swept(result, now),
        }
        self.tell_health();
    }

    fn converged(&mut self, uid: &str, worked: &Worked, now: Instant) {
        let outcome = &worked.outcome;
        // Also when the object changed meanwhile: what is gone must not be taken down once more.
        for other in self.objects.former_gone(uid, worked) {
            self.queue.wake(other);
        }
        if self.queue.finished(&uid.to_owned(), outcome.retry().unwrap_or(Retry::OnChange), now)
            == Standing::Superseded
        {
            return;
        }
        self.holders.set(&uid.to_owned(), outcome.holders());
        let error = agent::report::error(&self.site.node, &outcome.failures);
        let unreadable = || agent::report::unreadable(outcome);
        match error.map(|error| error.debug_message).or_else(unreadable) {
            Some(text) => {
                let name = self.objects.name(uid);
                // A retry that fails as before was told before.
                if self.failing.insert(uid.to_owned(), text.clone()).as_ref() != Some(&text) {
                    log::warn!(object = name.as_str(); "ClientMount {name}: {text}");
                }
            }
            None => drop(self.failing.remove(uid)),
        }
        if let Some(report) = self.objects.report(uid, outcome) {
            self.outbox.put(report);
        }
        let doubtful = self.objects.doubtful(uid);
        // What it has at a path that is lost goes with the mounts that no object wants.
        if self.objects.has_untold(uid) && !outcome.done() {
            self.sweep.again();
        }
        for other in self.objects.finished(uid, outcome) {
            self.queue.wake(other);
        }
        if !self.objects.knows(uid) {
            if doubtful {
                self.sweep.again();
            }
            self.failing.remove(uid);
            self.queue.forget(&uid.to_owned());
            self.outbox.forget(uid);
        }
    }

    fn swept(&mut self, result: Result<(), Failure>, now: Instant) {
        match result {
            Ok(()) => self.sweep.done(),
            Err(failure) => {
                let text = failure.debug;
                if self.sweep.failed(&text, now) {
                    log::warn!("unwanted mounts remain: {text}");
                }
            }
        }
    }

    fn next_due(&self) -> Option<Instant> {
        // Where a sweep must wait for the workers, the last of them to come back wakes the loop.
        let sweep = self.sweep.next_due().filter(|_| self.may_sweep());
        [self.queue.deadline(), sweep].into_iter().flatten().min()
    }

    fn tell_health(&self) {
        let sweep = self.sweep.failure().map(|why| format!("unwanted mounts remain: {why}"));
        let objects = self
            .failing
            .iter()
            .map(|(uid, why)| format!("ClientMount {}: {why}", self.objects.name(uid)));
        let told: Vec<_> = objects.chain(sweep).collect();
        let (state, message) = match &*told {
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

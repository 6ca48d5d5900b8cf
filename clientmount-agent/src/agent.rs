//! The agent's main loop: takes events about objects, starts a worker for each object, and reports the workers'
//! results. The work on one object is a pass: one attempt to bring the object's mounts into the desired state.
//!
//! The agent mounts and unmounts nothing before it knows every object that exists. Then the clean-up removes
//! Warren's mounts that no object requests. Until the clean-up has ended, the agent works only on objects whose
//! paths the clean-up leaves alone.

mod clean_up;
pub mod first_passes;
mod health_report;
mod objects;
mod passes;
mod requests;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use controller::Queue;
use daemon::End;
use proto::v1::{Health, health};
use storage::{Converger, desired::MountPoint};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

use crate::{
    job::Request,
    serve::NodeService,
    view::{Activity, View},
};
use agent::{
    clean_up::CleanUp, error::Failure, holders::HolderWatch, link::LinkEvent, outbox::Outbox,
    reconcile::WorkResult, records::MountRecords, site::Site,
};
use objects::Objects;

/// How long running steps may take to end when the agent is stopped.
const GRACE: Duration = Duration::from_secs(10);

/// The result of a worker.
enum WorkerResult {
    /// The work on the object with this uid ended.
    Object { uid: String, result: WorkResult },
    /// The clean-up has ended.
    CleanUp(Result<(), Failure>),
}

/// The agent: its objects, queue and reports. [`Agent::run`] is its main loop.
#[derive(Debug)]
pub struct Agent {
    site: Site,
    converger: Arc<Converger>,
    records: Arc<MountRecords>,
    outbox: Arc<Outbox>,
    objects: Objects,
    queue: Queue<String>,
    clean_up: CleanUp,
    /// Paths that the last clean-up left alone.
    kept_paths: BTreeSet<MountPoint>,
    workers: JoinSet<WorkerResult>,
    /// The newest failure of each object that fails, by uid.
    failing: BTreeMap<String, String>,
    /// Waits for the end of processes that keep an object's mounts in use.
    holders: HolderWatch<String>,
    view: Arc<View>,
    /// Requests of scripts; `None` if no socket serves them.
    requests: Option<mpsc::Receiver<Request>>,
    /// Answers the coordinator's requests for plans.
    planner: Option<NodeService>,
    /// Requests of scripts to detach mounts that cannot be unmounted, by the uid of the object. A request concerns only
    /// the next pass on the object, and only if that pass begins before the given time.
    detaching: BTreeMap<String, Instant>,
}

impl Agent {
    /// Creates an agent that knows what the previous agent process recorded.
    pub fn new(
        site: Site,
        converger: Arc<Converger>,
        records: Arc<MountRecords>,
        outbox: Arc<Outbox>,
    ) -> Self {
        let objects = Objects::new(site.clone(), records.earlier_records().to_vec());
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
            holders: HolderWatch::default(),
            view: Arc::default(),
            requests: None,
            planner: None,
            detaching: BTreeMap::new(),
        }
    }

    /// Works until `stop` resolves, then lets running steps end. All mounts stay.
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
                    Some(event) => self.handle_event(event),
                    None => break End::Stopped,
                },
                Some(result) = self.workers.join_next() => match result {
                    Ok(result) => self.worker_finished(result, Instant::now()),
                    // Workers catch panics in the work on an object and in a clean-up; any other panic ends the agent.
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                uid = self.holders.next_free() => self.queue.wake(uid),
                request = requests::next(&mut self.requests) => self.handle_request(request),
                () = daemon::sleep_until(due) => {}
            }
        };
        self.finish().await;
        end
    }

    /// Waits for running workers. Workers that take longer than [`GRACE`] are killed with the agent.
    async fn finish(&mut self) {
        let finishing = async {
            while let Some(result) = self.workers.join_next().await {
                match result {
                    Ok(WorkerResult::Object { uid, .. }) => self.queue.forget(&uid),
                    Ok(WorkerResult::CleanUp(_)) => self.clean_up.record_success(),
                    Err(_) => {}
                }
            }
        };
        if timeout(GRACE, finishing).await.is_err() {
            let objects =
                self.queue.running().map(|uid| format!("ClientMount {}", self.objects.name(uid)));
            let clean_up =
                self.clean_up.running().then(|| "the clean-up of unwanted mounts".to_owned());
            let names: Vec<_> = objects.chain(clean_up).collect();
            log::warn!(
                "work on {} did not end within {} s: its commands are killed, and the next start continues from there",
                names.join(", "),
                GRACE.as_secs()
            );
            self.workers.detach_all();
        }
    }

    fn handle_event(&mut self, event: LinkEvent) {
        let woken = match event {
            LinkEvent::Up => {
                self.objects.begin();
                Vec::new()
            }
            LinkEvent::Desired(desired) => self.objects.store(*desired),
            LinkEvent::Gone(gone) => self.objects.remove(&gone),
            LinkEvent::Synced => {
                let woken = self.objects.end_list();
                self.clean_up.make_due();
                woken
            }
            LinkEvent::Down => {
                self.objects.interrupt_list();
                Vec::new()
            }
            LinkEvent::Plan(question) => {
                self.plan(question);
                Vec::new()
            }
            LinkEvent::Refused(_) => Vec::new(),
        };
        if !woken.is_empty() {
            self.clean_up.end_postponement();
        }
        for uid in woken {
            self.show(&uid);
            self.queue.wake(uid);
        }
    }

    /// Starts due work. While the clean-up runs, starts work only on objects whose paths the clean-up leaves alone: the
    /// clean-up could remove a mount of any other object as unwanted.
    fn start(&mut self, now: Instant) {
        if !self.clean_up.has_list() {
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
                self.start_object(&uid, now);
            }
        }
    }

    fn worker_finished(&mut self, result: WorkerResult, now: Instant) {
        match result {
            WorkerResult::Object { uid, result } => self.end_pass(&uid, &result, now),
            WorkerResult::CleanUp(result) => self.end_clean_up(result, now),
        }
        self.report_health();
    }

    fn next_due(&self) -> Option<Instant> {
        // While the clean-up must wait for workers, no timer is needed for it: the loop runs again when a worker ends.
        let clean_up = self.clean_up.next_due().filter(|_| self.may_clean_up());
        [self.queue.deadline(), clean_up].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;

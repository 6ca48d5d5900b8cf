//! The agent's one loop: events in, passes out, each object by one pass at a time.

mod ends;
mod passes;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::take,
    sync::Arc,
    time::{Duration, Instant},
};

use clientmount_agent::{claims::Claims, holders::Holders, sweep::Sweep};
use controller::{Fingerprint, Queue, Retry};
use futures::{Stream, StreamExt};
use k8s_openapi::jiff::Timestamp;
use storage::{
    Desired,
    desired::{MountPoint, Nqn},
};
use tokio::task::{JoinError, JoinSet};

use crate::{
    block_storage::report::started_after,
    cache::{Cache, Key, Wake},
    client_mount,
    client_mount::reconcile::{note_change, prepare},
    node_storage::progress::Progress,
    pass::{Context, Pass},
    status::AgentStatus,
    watch::Update,
};

/// Passes side by side. Each may hold up to 16 threads that block in the kernel while it works on the node.
const SIDE_BY_SIDE: usize = 32;

/// Of these, passes that erase: a drive may take an hour to format, and other jobs' allocations must not wait for that.
const ERASING: usize = SIDE_BY_SIDE / 2;

/// How long a stop waits for running passes; the supervisor's own patience must be longer.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// The agent's state between events.
#[derive(Debug)]
pub struct Agent {
    context: Arc<Context>,
    status: AgentStatus,
    cache: Cache,
    claims: Claims,
    queue: Queue<Key>,
    passes: JoinSet<(Key, Pass)>,
    /// What the object of each pass looked like when the pass began.
    handled: BTreeMap<Key, Fingerprint>,
    /// What an object looked like when it was last brought to what it asks for.
    settled: BTreeMap<Key, Fingerprint>,
    /// ClientMounts that were there at the start, with the block storages that the agent looks at before them: after a
    /// reboot those bring the devices back, and without them a mount would fail for nothing.
    after_blocks: BTreeMap<String, BTreeSet<String>>,
    /// What the last pass of each failing object told the log: a retry that fails alike is no news.
    failing: BTreeMap<Key, Vec<String>>,
    /// Who keeps in use what an object is to let go.
    holders: Holders<Key>,
    /// How many passes in a row ended with a write to an object that was not there as it was read.
    conflicts: BTreeMap<Key, u32>,
    /// What goes on by itself of each object, as it was told the log.
    progress: BTreeMap<Key, Vec<Progress>>,
    /// Mounts of ours that no object wants.
    sweep: Sweep,
    /// The sweep that runs, and what it leaves alone.
    sweeping: JoinSet<Result<(), String>>,
    mounts_to_keep: BTreeSet<MountPoint>,
    /// The resourceVersions that the last pass of this agent to write an object gave it.
    wrote: BTreeMap<Key, Vec<String>>,
    /// The newest status that a watch brought of an object while it was being worked on.
    status_changed: BTreeMap<Key, String>,
    /// ClientMounts that nobody holds any more, by uid, with the name under which one is being worked on.
    deleted: BTreeMap<String, String>,
    /// Woken by something else than their own object while they were being worked on.
    woken_meanwhile: BTreeSet<Key>,
    /// The drives that could be used when they were last looked at, and whether anything of the node had moved by then.
    drives: Option<(BTreeSet<Nqn>, bool)>,
}

impl Agent {
    /// An agent that knows what the one before it recorded.
    #[must_use]
    pub fn new(context: Arc<Context>, status: AgentStatus) -> Self {
        let mut cache = Cache::new(context.node.clone());
        context.records.read().into_iter().for_each(|versions| cache.restore(versions));
        Self {
            context,
            status,
            cache,
            claims: Claims::default(),
            queue: Queue::new(SIDE_BY_SIDE),
            passes: JoinSet::new(),
            handled: BTreeMap::new(),
            settled: BTreeMap::new(),
            after_blocks: BTreeMap::new(),
            failing: BTreeMap::new(),
            holders: Holders::default(),
            conflicts: BTreeMap::new(),
            progress: BTreeMap::new(),
            sweep: Sweep::default(),
            sweeping: JoinSet::new(),
            mounts_to_keep: BTreeSet::new(),
            wrote: BTreeMap::new(),
            status_changed: BTreeMap::new(),
            deleted: BTreeMap::new(),
            woken_meanwhile: BTreeSet::new(),
            drives: None,
        }
    }

    /// Works until `stop`, then lets passes that run come to an end, but not for long: what is mounted stays mounted.
    pub async fn run(mut self, events: impl Stream<Item = Update>, stop: impl Future<Output = ()>) {
        futures::pin_mut!(events, stop);
        loop {
            let next_due = self.next_due();
            tokio::select! {
                () = &mut stop => break,
                Some(update) = events.next() => self.update(update),
                Some(ended) = self.passes.join_next() => self.ended(ended),
                Some(swept) = self.sweeping.join_next() => self.swept(swept),
                key = self.holders.ended() => self.wake_related(key),
                () = sleep_until(next_due) => {}
            }
            if !self.cache.is_complete() {
                continue;
            }
            let first = !self.sweep.started();
            if first {
                self.begin();
                self.note_changes();
                self.claim();
                self.sweep.synced();
                self.status.set_ready();
            }
            if self.may_sweep() && self.sweep.due(Instant::now()) {
                self.start_sweep();
            }
            if first {
                self.wake_everything();
            }
            self.start_passes();
        }
        self.finish().await;
    }

    /// Lets what runs come to an end. What does not is killed with the agent.
    async fn finish(&mut self) {
        let ending = async {
            while let Some(ended) = self.passes.join_next().await {
                if let Ok((key, _)) = ended {
                    self.queue.finished(&key, Retry::OnChange, Instant::now());
                }
            }
            while self.sweeping.join_next().await.is_some() {
                self.sweep.done();
            }
        };
        if tokio::time::timeout(STOP_DEADLINE, ending).await.is_err() {
            let passes = self.queue.running().map(ToString::to_string);
            let sweep = self.sweep.running().then(|| "mounts that no object wants".to_owned());
            let named: Vec<_> = passes.chain(sweep).collect();
            log::warn!(
                "work on {} did not end within {} s: its commands are killed, and the next start goes on from what they left",
                named.join(", "),
                STOP_DEADLINE.as_secs()
            );
        }
    }

    fn update(&mut self, update: Update) {
        let wakes = update.apply(&mut self.cache);
        if self.sweep.started() {
            self.note_changes();
        }
        if !wakes.is_empty() {
            self.sweep.changed();
        }
        self.wake(wakes);
    }

    fn note_changes(&mut self) {
        for (before, after) in take(&mut self.cache.altered) {
            note_change(&before, &after, &mut self.cache, &self.context.site, &self.claims);
        }
    }

    fn wake(&mut self, wakes: Vec<Wake>) {
        for wake in wakes {
            match wake {
                Wake::Changed(key) => self.queue.wake(key),
                Wake::Related(key) => self.wake_related(key),
                // Also of an object that the pass makes itself, and of which nothing was known when it began.
                Wake::StatusChanged(key, version) if self.queue.is_running(&key) => {
                    self.status_changed.insert(key, version);
                }
                // A watch may bring what a pass wrote only after the pass ended.
                Wake::StatusChanged(key, version)
                    if self.wrote.get(&key).is_some_and(|ours| ours.contains(&version)) => {}
                Wake::StatusChanged(key, _) => self.report_again(&key),
                // The pass that runs put its claim on, and may be about to mount.
                Wake::Deleted(name, uid)
                    if self.queue.is_running(&Key::ClientMount(name.clone())) =>
                {
                    self.deleted.insert(uid, name);
                }
                Wake::Deleted(_, uid) => self.forget_deleted(&uid),
            }
        }
    }

    fn wake_related(&mut self, key: Key) {
        self.settled.remove(&key);
        self.woken_meanwhile.insert(key.clone());
        self.queue.wake(key);
    }

    /// Somebody else wrote the status. The agent writes its own again, but not at once: if another agent believes the same of ours, two of
    /// them must not answer each other as fast as they can.
    fn report_again(&mut self, key: &Key) {
        log::warn!(
            "{key}: its status is not as this agent wrote it, and is told anew: see that no other agent runs for this rabbit"
        );
        self.settled.remove(key);
        self.woken_meanwhile.insert(key.clone());
        self.queue.wake_later(key, Instant::now());
    }

    fn next_due(&self) -> Option<tokio::time::Instant> {
        let sweep = self.sweep.next_due().filter(|_| self.may_sweep());
        let next = [self.queue.deadline(), sweep].into_iter().flatten().min();
        next.map(tokio::time::Instant::from_std)
    }

    /// From now on device paths that this agent looked up can be told from those of any earlier one.
    fn begin(&mut self) {
        let started = started_after(Timestamp::now(), self.cache.block_storages.iter());
        let context = Arc::get_mut(&mut self.context);
        context.expect("nobody but a pass shares it, and none has begun").started = started;
    }

    /// Before anything else is done every object's mount points are claimed.
    fn claim(&mut self) {
        let mounts: Vec<_> = self.cache.client_mounts.iter().cloned().collect();
        for mount in mounts {
            prepare(&mount, &self.cache, &self.context.site, &mut self.claims);
        }
    }

    /// Unwanted mounts go between passes: what one is about to mount could be taken for unwanted.
    fn may_sweep(&self) -> bool {
        self.passes.is_empty()
    }

    /// Removes mounts of ours that no object wants. A umount that hangs takes its time, and keeps nothing from going on that has
    /// nothing to do with it.
    fn start_sweep(&mut self) {
        let Some(keep) = self.points_to_keep() else { return };
        self.sweep.begin();
        self.mounts_to_keep = keep.iter().cloned().collect();
        let context = Arc::clone(&self.context);
        self.sweeping.spawn(async move {
            let swept = context.converge(vec![Desired::OnlyMounts(keep)]).await;
            let removed = swept.into_iter().try_for_each(|result| result.map(drop));
            removed.map_err(|error| daemon::chain(&error))
        });
    }

    /// What may be mounted; `None` when that cannot be told.
    fn points_to_keep(&mut self) -> Option<Vec<MountPoint>> {
        let keep =
            client_mount::start::keep(&self.cache, &self.context.site, &self.context.temporary);
        if let Err(why) = &keep
            && self.sweep.put_off(why)
        {
            log::warn!("mounts that no object wants are left alone: {why}");
        }
        keep.ok()
    }

    fn swept(&mut self, swept: Result<Result<(), String>, JoinError>) {
        match swept {
            // What it does for mounts is caught where they are converged.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
            Ok(Ok(())) => self.sweep.done(),
            Ok(Err(why)) => {
                if self.sweep.failed(&why, Instant::now()) {
                    log::warn!("remove mounts that no object wants: {why}");
                }
            }
        }
    }

    /// The agent looks at every object; mounts after the block storages under them.
    fn wake_everything(&mut self) {
        for key in self.cache.all_keys() {
            match &key {
                Key::ClientMount(name) if !self.cache.blocks_under(name).is_empty() => {
                    self.after_blocks.insert(name.clone(), self.cache.blocks_under(name));
                }
                _ => self.queue.wake(key),
            }
        }
    }

    /// A pass looked at a block storage: mounts that waited for that alone are next.
    fn looked_at_block(&mut self, name: &str) {
        for blocks in self.after_blocks.values_mut() {
            blocks.remove(name);
        }
        let free: Vec<String> = self
            .after_blocks
            .iter()
            .filter(|(_, blocks)| blocks.is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        for mount in free {
            self.after_blocks.remove(&mount);
            self.wake_related(Key::ClientMount(mount));
        }
    }
}

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

//! The agent's main loop: it receives events and starts passes. A pass works once on one object; at most one pass works
//! on an object at a time.

mod clean_up;
mod ends;
mod passes;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::take,
    sync::Arc,
    time::{Duration, Instant},
};

use agent::{clean_up::CleanUp, holders::HolderWatch, targets::TargetsInUse};
use controller::{Fingerprint, Queue, Retry};
use daemon::sleep_until;
use futures::{Stream, StreamExt};
use k8s_openapi::jiff::Timestamp;
use storage::desired::{MountPoint, Nqn};
use tokio::{sync::oneshot, task::JoinSet};

use crate::{
    core::{Cache, Context, Key, Pass, Wake, status::AgentStatus, watch::Update},
    kinds::{
        block_storage::report::started_after,
        client_mount::prepare::{prepare_all, record_change},
        node_storage::progress::Progress,
    },
    preview::{Snapshot, snapshot::SnapshotRequests},
};

/// Maximum number of passes that run at the same time. Each pass may use up to 16 threads that block in the kernel.
const SIDE_BY_SIDE: usize = 32;

/// Maximum number of passes that erase namespaces at the same time: formatting a drive may take an hour, and the
/// allocations of other jobs must not wait for it.
const ERASING: usize = SIDE_BY_SIDE / 2;

/// How long a stopping agent waits for running passes. The supervisor's stop timeout must be longer.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Agent {
    context: Arc<Context>,
    status: AgentStatus,
    snapshot_requests: SnapshotRequests,
    cache: Cache,
    targets_in_use: TargetsInUse,
    queue: Queue<Key>,
    passes: JoinSet<(Key, Pass)>,
    /// The fingerprint of each running pass's object, taken when the pass began.
    handled: BTreeMap<Key, Fingerprint>,
    /// ClientMounts that existed when the agent started, each with the block storages under it that no pass has
    /// worked on yet. After a reboot the passes over the block storages bring the devices back; a mount before these
    /// passes would fail needlessly.
    after_blocks: BTreeMap<String, BTreeSet<String>>,
    /// Failures that the last pass over each failing object logged: a retry that fails in the same way logs nothing.
    failing: BTreeMap<Key, Vec<String>>,
    holders: HolderWatch<Key>,
    /// For each object, how many passes in a row ended with a write conflict.
    conflicts: BTreeMap<Key, u32>,
    /// Progress of long-running work on each object (e.g. the synchronisation of a RAID), as last logged.
    progress: BTreeMap<Key, Vec<Progress>>,
    clean_up: CleanUp,
    /// The running clean-up; empty if none runs.
    cleaning_up: JoinSet<Result<(), String>>,
    /// Mount points that the running clean-up leaves mounted.
    mounts_to_keep: BTreeSet<MountPoint>,
    /// Uids of the ClientMounts that this agent has seen mounted.
    mounted: BTreeSet<String>,
    /// For each object that a pass works on: the resourceVersion of the newest status that a watch brought during the
    /// pass. When the pass ends, the agent compares this version with the pass's own writes, to detect writes of other
    /// programs.
    status_changed: BTreeMap<Key, String>,
    /// ClientMounts that were deleted without the agent's finalizer while a pass worked on an object of their name: the
    /// names, by uid. The agent frees their mount points after the pass.
    deleted: BTreeMap<String, String>,
    /// Objects that were woken during a pass over them, but not by a change of the object itself. Such an object gets
    /// another pass; an object that only the pass's own write woke does not.
    woken_meanwhile: BTreeSet<Key>,
    /// The drives that were usable at the last inventory, and whether any device event had come before that inventory.
    drives: Option<(BTreeSet<Nqn>, bool)>,
}

impl Agent {
    pub fn new(
        context: Arc<Context>,
        status: AgentStatus,
        snapshot_requests: SnapshotRequests,
    ) -> Self {
        let cache = Cache::with_records(context.node.clone(), &context.records);
        Self {
            context,
            status,
            snapshot_requests,
            cache,
            targets_in_use: TargetsInUse::default(),
            queue: Queue::new(SIDE_BY_SIDE),
            passes: JoinSet::new(),
            handled: BTreeMap::new(),
            after_blocks: BTreeMap::new(),
            failing: BTreeMap::new(),
            holders: HolderWatch::default(),
            conflicts: BTreeMap::new(),
            progress: BTreeMap::new(),
            clean_up: CleanUp::default(),
            cleaning_up: JoinSet::new(),
            mounts_to_keep: BTreeSet::new(),
            mounted: BTreeSet::new(),
            status_changed: BTreeMap::new(),
            deleted: BTreeMap::new(),
            woken_meanwhile: BTreeSet::new(),
            drives: None,
        }
    }

    /// Works until `stop` completes. Then waits up to `STOP_DEADLINE` for running passes; mounts stay.
    pub async fn run(mut self, events: impl Stream<Item = Update>, stop: impl Future<Output = ()>) {
        futures::pin_mut!(events, stop);
        loop {
            let next_due = self.next_due();
            tokio::select! {
                () = &mut stop => break,
                Some(update) = events.next() => self.update(update),
                Some(ended) = self.passes.join_next() => self.pass_ended(ended),
                Some(answer) = self.snapshot_requests.recv() => self.send_snapshot(answer),
                Some(cleaned_up) = self.cleaning_up.join_next() => self.clean_up_ended(cleaned_up),
                key = self.holders.next_free() => self.wake_related(key),
                () = sleep_until(next_due) => {}
            }
            if !self.cache.is_complete() {
                continue;
            }
            let first = !self.clean_up.has_list();
            if first {
                self.set_started();
                self.record_changes();
                self.claim_mount_points();
                self.clean_up.make_due();
                self.status.set_ready();
            }
            if self.may_clean_up() && self.clean_up.due(Instant::now()) {
                self.start_clean_up();
            }
            if first {
                self.wake_everything();
            }
            self.start_passes();
        }
        self.finish().await;
    }

    /// Waits for running passes and the clean-up. Work that outlasts the wait is killed with the agent.
    async fn finish(&mut self) {
        let ending = async {
            while let Some(ended) = self.passes.join_next().await {
                if let Ok((key, _)) = ended {
                    self.queue.finished(&key, Retry::OnChange, Instant::now());
                }
            }
            while self.cleaning_up.join_next().await.is_some() {
                self.clean_up.record_success();
            }
        };
        if tokio::time::timeout(STOP_DEADLINE, ending).await.is_err() {
            let passes = self.queue.running().map(ToString::to_string);
            let clean_up = self
                .clean_up
                .running()
                .then(|| "the removal of mounts that no object asks for".to_owned());
            let running: Vec<_> = passes.chain(clean_up).collect();
            log::warn!(
                "work on {} did not end within {} s: the agent kills its commands, and continues the work when it starts again",
                running.join(", "),
                STOP_DEADLINE.as_secs()
            );
        }
    }

    fn update(&mut self, update: Update) {
        let wakes = update.apply(&mut self.cache);
        if self.clean_up.has_list() {
            self.record_changes();
        }
        if !wakes.is_empty() {
            self.clean_up.end_postponement();
        }
        self.wake(wakes);
    }

    /// Answers a request for a snapshot. Before the first list is complete, a plan would miss objects: then drops the
    /// channel.
    fn send_snapshot(&self, answer: oneshot::Sender<Snapshot>) {
        if !self.clean_up.has_list() {
            return;
        }
        let snapshot = Snapshot {
            context: Arc::clone(&self.context),
            cache: self.cache.clone(),
            targets_in_use: self.targets_in_use.clone(),
            mounted: self.mounted.clone(),
        };
        // The caller may have ended its call meanwhile.
        drop(answer.send(snapshot));
    }

    fn record_changes(&mut self) {
        for (before, after) in take(&mut self.cache.altered) {
            record_change(
                &before,
                &after,
                &mut self.cache,
                &self.context.site,
                &self.targets_in_use,
            );
        }
    }

    fn wake(&mut self, wakes: Vec<Wake>) {
        for wake in wakes {
            match wake {
                Wake::Changed(key) => self.queue.wake(key),
                Wake::Related(key) => self.wake_related(key),
                // The watch may have brought the running pass's own write. So the agent waits for the end of the pass,
                // and then compares this version with the pass's writes.
                Wake::StatusChanged(key, version) if self.queue.is_running(&key) => {
                    self.status_changed.insert(key, version);
                }
                Wake::StatusChanged(key, _) => self.report_again(&key),
                // The running pass may have added the agent's finalizer after the deletion was seen, and may be about
                // to mount. So the agent frees the mount points only after the pass.
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
        self.woken_meanwhile.insert(key.clone());
        self.queue.wake(key);
    }

    /// Makes a pass write the object's status again after another writer changed it. The pass waits first, so that two
    /// agents do not overwrite each other at full speed.
    fn report_again(&mut self, key: &Key) {
        log::warn!(
            "{key}: another writer changed its status; this agent writes it again: check that no second agent runs for this rabbit"
        );
        self.woken_meanwhile.insert(key.clone());
        self.queue.wake_later(key, Instant::now());
    }

    fn next_due(&self) -> Option<Instant> {
        let clean_up = self.clean_up.next_due().filter(|_| self.may_clean_up());
        [self.queue.deadline(), clean_up].into_iter().flatten().min()
    }

    /// Chooses the start time that this agent writes into statuses. Readers of a status tell by the start time whether
    /// this agent or an earlier one looked up the device paths.
    fn set_started(&mut self) {
        let started = started_after(Timestamp::now(), self.cache.block_storages.iter());
        let context = Arc::get_mut(&mut self.context);
        context.expect("only passes share the context, and none has begun").started = started;
    }

    /// Reserves the mount points of every object before the first pass begins.
    fn claim_mount_points(&mut self) {
        prepare_all(&self.cache, &self.context.site, &mut self.targets_in_use);
    }

    /// Wakes every object, except ClientMounts on block storages of this rabbit: these wait for the passes
    /// over the block storages.
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

    /// After a pass over a block storage, wakes the ClientMounts that wait for no other pass over a block storage.
    fn block_pass_ended(&mut self, name: &str) {
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

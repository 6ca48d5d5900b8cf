//! The agent's one loop: events in, passes out, each object by one pass at a time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use clientmount_agent::{
    claims::Claims,
    desired::Goal,
    error::{Retry, jitter},
    sweep::Sweep,
};
use futures::{Stream, StreamExt};
use kube::ResourceExt;
use storage::Desired;
use tokio::task::JoinSet;

use crate::{
    block_storage, client_mount,
    client_mount::reconcile::{prepare, prepare_for},
    health::Board,
    node, node_storage,
    pass::{Context, Pass},
    queue::Queue,
    shelf::Fingerprint,
    watch::Told,
    world::{Key, Wake, World, block_name},
};

/// Passes side by side. Each may hold up to 16 threads that block in the kernel while it works on the node.
const SIDE_BY_SIDE: usize = 32;

/// How long a stop waits for running passes; the supervisor's own patience must be longer.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// The agent's state between events.
#[derive(Debug)]
pub struct Agent {
    context: Arc<Context>,
    board: Board,
    world: World,
    claims: Claims,
    queue: Queue<Key>,
    passes: JoinSet<(Key, Pass)>,
    /// What the object of each pass looked like when the pass began.
    handled: BTreeMap<Key, Fingerprint>,
    /// What an object looked like when it was last brought to what it asks for.
    settled: BTreeMap<Key, Fingerprint>,
    /// ClientMounts that were there at the start, with the block storages that are to be looked at before them: after a
    /// reboot those bring the devices back, and without them a mount would fail for nothing.
    after_blocks: BTreeMap<String, BTreeSet<String>>,
    /// What the last pass of each failing object told the log: a retry that fails alike is no news.
    failing: BTreeMap<Key, Vec<String>>,
    /// Mounts of ours that no object wants.
    sweep: Sweep,
    /// Woken by something else than their own object while they were being worked on.
    again: BTreeSet<Key>,
}

impl Agent {
    /// An agent that knows nothing yet.
    #[must_use]
    pub fn new(context: Arc<Context>, board: Board) -> Self {
        let world = World::new(context.node.clone());
        Self {
            context,
            board,
            world,
            claims: Claims::default(),
            queue: Queue::new(SIDE_BY_SIDE),
            passes: JoinSet::new(),
            handled: BTreeMap::new(),
            settled: BTreeMap::new(),
            after_blocks: BTreeMap::new(),
            failing: BTreeMap::new(),
            sweep: Sweep::default(),
            again: BTreeSet::new(),
        }
    }

    /// Works until `stop`, then lets passes that run come to an end, but not for long: what is mounted stays mounted.
    pub async fn run(mut self, events: impl Stream<Item = Told>, stop: impl Future<Output = ()>) {
        futures::pin_mut!(events, stop);
        loop {
            let next_due = self.next_due();
            tokio::select! {
                () = &mut stop => break,
                Some(told) = events.next() => self.told(told),
                Some(ended) = self.passes.join_next() => self.ended(ended),
                () = sleep_until(next_due) => {}
            }
            if !self.world.is_complete() {
                continue;
            }
            let first = !self.sweep.started();
            if first {
                self.claim();
                self.sweep.synced();
            }
            // Between passes: what one is about to mount could be taken for unwanted.
            if self.passes.is_empty() && self.sweep.due(Instant::now()) {
                tokio::select! {
                    () = &mut stop => break,
                    () = self.sweep() => {}
                }
            }
            if first {
                self.wake_everything();
            }
            self.start_passes();
        }
        let ending = async { while self.passes.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_DEADLINE, ending).await.is_err() {
            log::warn!(
                "work on the node did not end within {} s; the next start goes on with it",
                STOP_DEADLINE.as_secs()
            );
        }
    }

    fn told(&mut self, told: Told) {
        let wakes = told.tell(&mut self.world);
        if !wakes.is_empty() {
            self.sweep.changed();
        }
        self.wake(wakes);
    }

    fn wake(&mut self, wakes: Vec<Wake>) {
        for wake in wakes {
            match wake {
                Wake::Changed(key) => self.queue.wake(key),
                Wake::Related(key) => self.related(key),
            }
        }
    }

    fn related(&mut self, key: Key) {
        self.settled.remove(&key);
        self.again.insert(key.clone());
        self.queue.wake(key);
    }

    fn next_due(&self) -> Option<tokio::time::Instant> {
        let sweep = self.sweep.next_due().filter(|_| self.passes.is_empty());
        let next = [self.queue.deadline(), sweep].into_iter().flatten().min();
        next.map(tokio::time::Instant::from_std)
    }

    /// Before anything else is done every object's mount points are claimed.
    fn claim(&mut self) {
        let mounts: Vec<_> = self.world.client_mounts.iter().cloned().collect();
        for mount in mounts {
            prepare(&mount, &self.world, &self.context.site, &mut self.claims);
        }
    }

    /// Removes mounts of ours that no object wants.
    async fn sweep(&mut self) {
        let keep =
            client_mount::start::keep(&self.world, &self.context.site, &self.context.temporary);
        let keep = match keep {
            Ok(keep) => keep,
            Err(why) => {
                if self.sweep.put_off(&why) {
                    log::warn!("mounts that no object wants are left alone: {why}");
                }
                return;
            }
        };
        let swept = self.context.converge(vec![Desired::OnlyMounts(keep)]).await;
        match swept.into_iter().find_map(Result::err) {
            None => self.sweep.done(),
            Some(error) => {
                let why = daemon::chain(&error);
                if self.sweep.failed(&why, Instant::now(), jitter()) {
                    log::warn!("remove mounts that no object wants: {why}");
                }
            }
        }
    }

    /// Every object is looked at; mounts after the block storages under them.
    fn wake_everything(&mut self) {
        for key in self.world.everything() {
            match &key {
                Key::ClientMount(name) if !self.world.blocks_under(name).is_empty() => {
                    self.after_blocks.insert(name.clone(), self.world.blocks_under(name));
                }
                _ => self.queue.wake(key),
            }
        }
    }

    /// A block storage was looked at: mounts that waited for that alone are next.
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
            self.related(Key::ClientMount(mount));
        }
    }

    fn start_passes(&mut self) {
        for key in self.queue.start(Instant::now()) {
            if self.waits_for_blocks(&key) {
                // Whatever else woke it: it is woken again when what is under it was looked at.
                self.queue.finished(&key, Retry::OnChange, Instant::now());
                continue;
            }
            self.again.remove(&key);
            let settled = self.settled.get(&key);
            if settled.is_some() && settled == self.world.fingerprint(&key).as_ref() {
                // The echo of our own write.
                self.queue.finished(&key, Retry::OnChange, Instant::now());
                continue;
            }
            self.start(&key);
        }
    }

    fn waits_for_blocks(&self, key: &Key) -> bool {
        matches!(key, Key::ClientMount(name) if self.after_blocks.contains_key(name))
    }

    fn start(&mut self, key: &Key) {
        if let Some(print) = self.world.fingerprint(key) {
            self.handled.insert(key.clone(), print);
        }
        let started = match key {
            Key::Node => self.start_node(),
            Key::BlockStorage(name) => self.start_block_storage(name),
            Key::NodeStorage(name) => self.start_node_storage(name),
            Key::ClientMount(name) => self.start_client_mount(name),
            Key::Vanished(uid) => self.start_vanished(uid),
        };
        if started.is_none() {
            self.failing.remove(key);
            self.settled.remove(key);
            self.handled.remove(key);
            self.queue.finished(key, Retry::OnChange, Instant::now());
            if let Key::BlockStorage(name) = key {
                self.looked_at_block(name);
            }
        }
    }

    fn spawn(&mut self, key: Key, work: impl Future<Output = Pass> + Send + 'static) {
        self.passes.spawn(async move { (key, work.await) });
    }

    fn start_node(&mut self) -> Option<()> {
        let claimants = self
            .world
            .block_storages
            .iter()
            .filter_map(|it| block_storage::desired::uid(it).ok())
            .collect();
        let view = node::reconcile::View {
            object: self.world.nnf_node().cloned(),
            chassis: self.world.chassis(),
            claimants,
        };
        let (context, board) = (Arc::clone(&self.context), self.board.clone());
        self.spawn(Key::Node, async move {
            let mut pass = Pass::default();
            let result = node::reconcile::reconcile(&context, &view, &board, &mut pass).await;
            pass.ended(result)
        });
        Some(())
    }

    fn start_block_storage(&mut self, name: &str) -> Option<()> {
        let object = Arc::clone(self.world.block_storage(name)?);
        let chassis = self.world.chassis();
        let in_use = self.world.node_storages.iter().any(|it| block_name(it) == name);
        let context = Arc::clone(&self.context);
        self.spawn(Key::BlockStorage(name.to_owned()), async move {
            let mut pass = Pass::default();
            let result =
                block_storage::reconcile::reconcile(&context, &object, &chassis, in_use, &mut pass)
                    .await;
            pass.ended(result)
        });
        Some(())
    }

    fn start_node_storage(&mut self, name: &str) -> Option<()> {
        let object = Arc::clone(self.world.node_storage(name)?);
        let block = self.world.block_storage(&block_name(&object)).cloned();
        let profile = self.world.profile(&*object);
        let view = node_storage::reconcile::View { object, block, profile };
        let context = Arc::clone(&self.context);
        self.spawn(Key::NodeStorage(name.to_owned()), async move {
            let mut pass = Pass::default();
            let result = node_storage::reconcile::reconcile(&context, &view, &mut pass).await;
            pass.ended(result)
        });
        Some(())
    }

    fn start_client_mount(&mut self, name: &str) -> Option<()> {
        let object = Arc::clone(self.world.client_mount(name)?);
        let (work, moved) = prepare(&object, &self.world, &self.context.site, &mut self.claims);
        self.wake_claimants(&moved);
        let context = Arc::clone(&self.context);
        self.spawn(Key::ClientMount(name.to_owned()), async move {
            let mut pass = Pass::default();
            let result =
                client_mount::reconcile::reconcile(&context, &object, work, &mut pass).await;
            pass.ended(result)
        });
        Some(())
    }

    fn start_vanished(&mut self, uid: &str) -> Option<()> {
        let object = Arc::clone(self.world.vanished(uid)?);
        if self.handled.contains_key(&Key::ClientMount(object.name_any())) {
            // The pass that runs may be the one that let it go; its end brings us back if anything is left.
            return None;
        }
        let (work, moved) = prepare_for(
            &object,
            Goal::Unmounted,
            &self.world,
            &self.context.site,
            &mut self.claims,
        );
        self.wake_claimants(&moved);
        let context = Arc::clone(&self.context);
        self.spawn(Key::Vanished(uid.to_owned()), async move {
            let mut pass = Pass::default();
            client_mount::reconcile::clean_up(&context, &object, work, &mut pass).await;
            pass
        });
        Some(())
    }

    fn wake_claimants(&mut self, uids: &[String]) {
        let named = |uid: &String| {
            self.world
                .client_mounts
                .iter()
                .find(|it| it.uid().as_ref() == Some(uid))
                .map(|it| it.name_any())
        };
        let names: Vec<String> = uids.iter().filter_map(named).collect();
        for name in names {
            self.related(Key::ClientMount(name));
        }
    }

    fn tell_failures(&mut self, key: &Key, failures: Vec<String>) {
        if failures.is_empty() {
            self.failing.remove(key);
        } else if self.failing.get(key) != Some(&failures) {
            for failure in &failures {
                log::warn!("{failure}");
            }
            self.failing.insert(key.clone(), failures);
        }
    }

    fn ended(&mut self, ended: Result<(Key, Pass), tokio::task::JoinError>) {
        let (key, pass) = match ended {
            Ok(ended) => ended,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        self.tell_failures(&key, pass.failures);
        // Writes are refused when the object has moved on, so what was written is what was handled and nothing more.
        let mut handled = self.handled.remove(&key);
        for wrote in pass.wrote {
            if let Some((_, print)) = wrote.handled.clone().filter(|(of, _)| *of == key) {
                handled = Some(print);
            }
            let wakes = wrote.tell(&mut self.world);
            self.wake(wakes);
        }
        if let Some(uid) = pass.mounted {
            self.claims.settle(&uid);
        }
        if pass.doubtful && pass.unmounted.is_some() {
            self.sweep.again();
        }
        if let Some(uid) = pass.unmounted {
            self.world.forget_vanished(&uid);
            let moved = self.claims.release(&uid);
            self.wake_claimants(&moved);
        }
        for woken in pass.wakes {
            self.related(woken);
        }
        if let Key::BlockStorage(name) = &key {
            self.looked_at_block(name);
        }
        if let Key::ClientMount(name) = &key {
            for uid in self.world.vanished_under(name) {
                self.related(Key::Vanished(uid));
            }
        }
        match handled.filter(|_| pass.done && !self.again.contains(&key)) {
            Some(print) => drop(self.settled.insert(key.clone(), print)),
            None => drop(self.settled.remove(&key)),
        }
        self.queue.finished(&key, pass.retry, Instant::now());
    }
}

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

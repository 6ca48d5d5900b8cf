//! Passes: which starts next, what it is given, and what its end changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use clientmount_agent::{desired::Goal, error::Retry};
use kube::ResourceExt;
use storage::desired::Nqn;

use super::Agent;
use crate::{
    block_storage, client_mount,
    client_mount::reconcile::{prepare, prepare_for},
    lustre_mgt, node, node_storage,
    pass::Pass,
    world::{Key, block_name},
};

/// Versions of one object that passes wrote and a watch that is behind may still bring: more than a pass writes, few enough for
/// every object there ever was.
const REMEMBERED: usize = 16;

impl Agent {
    pub(super) fn start_passes(&mut self) {
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
        self.signs.count(key);
        let started = match key {
            Key::Node => self.start_node(),
            Key::BlockStorage(name) => self.start_block_storage(name),
            Key::NodeStorage(name) => self.start_node_storage(name),
            Key::ClientMount(name) => self.start_client_mount(name),
            Key::Vanished(uid) => self.start_vanished(uid),
            Key::LustreMgt(name) => self.start_lustre_mgt(name),
        };
        if started.is_none() {
            self.failing.remove(key);
            self.wrote.remove(key);
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
        let claimants = self.world.claimants();
        let view = node::reconcile::View {
            object: self.world.nnf_node().cloned(),
            chassis: self.world.chassis(),
            claimants,
            owners: self.world.volume_owners(),
        };
        let (context, board) = (Arc::clone(&self.context), self.signs.health.clone());
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
        let elsewhere = self.world.told_elsewhere(name);
        let in_use = self.world.is_in_use(name);
        let view = block_storage::reconcile::View { object, chassis, elsewhere, in_use };
        let context = Arc::clone(&self.context);
        self.spawn(Key::BlockStorage(name.to_owned()), async move {
            let mut pass = Pass::default();
            let result = block_storage::reconcile::reconcile(&context, &view, &mut pass).await;
            pass.ended(result)
        });
        Some(())
    }

    fn start_node_storage(&mut self, name: &str) -> Option<()> {
        let object = Arc::clone(self.world.node_storage(name)?);
        let block = self.world.block_storage(&block_name(&object)).cloned();
        let profile = self.world.profile(&*object);
        let mounts = self.world.mounts_on(name);
        let view = node_storage::reconcile::View { object, block, profile, mounts };
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
        let profile = self.world.profile(&*object).err();
        let context = Arc::clone(&self.context);
        self.spawn(Key::ClientMount(name.to_owned()), async move {
            let mut pass = Pass::default();
            let view = client_mount::reconcile::View { object, work, profile };
            let result = client_mount::reconcile::reconcile(&context, view, &mut pass).await;
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

    fn start_lustre_mgt(&mut self, name: &str) -> Option<()> {
        let object = Arc::clone(self.world.lustre_mgt(name)?);
        let context = Arc::clone(&self.context);
        self.spawn(Key::LustreMgt(name.to_owned()), async move {
            let mut pass = Pass::default();
            let result = lustre_mgt::reconcile(&context, &object, &mut pass).await;
            pass.ended(result)
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

    /// A drive that went while the agent started may be missing from the very first look at drives, and yet have been there
    /// when a storage on it was looked at: the first sign of a change counts as one, whatever that look shows.
    fn drives_seen(&mut self, drives: BTreeSet<Nqn>) {
        let seen = (drives, self.world.has_moved);
        let is_news = match &self.drives {
            Some(before) => *before != seen,
            None => self.world.has_moved,
        };
        if is_news {
            self.wake(self.world.drives_changed());
        }
        self.drives = Some(seen);
    }

    pub(super) fn ended(&mut self, ended: Result<(Key, Pass), tokio::task::JoinError>) {
        let (key, pass) = match ended {
            Ok(ended) => ended,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        self.tell_failures(&key, pass.failures);
        // Writes are refused when the object has moved on, so what was written is what was handled and nothing more.
        let mut handled = self.handled.remove(&key);
        let versions: Vec<String> = pass.wrote.iter().filter_map(|it| it.version.clone()).collect();
        // What passes before this one wrote may come back only now.
        let earlier = self.wrote.get(&key).cloned().unwrap_or_default();
        let is_ours = |version: &String| versions.contains(version) || earlier.contains(version);
        let retold = self.retold.remove(&key).is_some_and(|version| !is_ours(&version));
        let mut ours: BTreeMap<Key, Vec<String>> = BTreeMap::new();
        for wrote in &pass.wrote {
            if let (Some((of, _)), Some(version)) = (&wrote.handled, &wrote.version) {
                ours.entry(of.clone()).or_default().push(version.clone());
            }
        }
        for (of, versions) in ours {
            let known = self.wrote.entry(of).or_default();
            known.extend(versions);
            known.drain(..known.len().saturating_sub(REMEMBERED));
        }
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
            let waited = self.world.vanished(&uid).cloned();
            self.world.forget_vanished(&uid);
            if let Some(object) = waited {
                let wakes = self.world.leaving_storages(&object);
                self.wake(wakes);
            }
            let moved = self.claims.release(&uid);
            self.wake_claimants(&moved);
        }
        for woken in pass.wakes {
            self.related(woken);
        }
        if let Some(drives) = pass.drives {
            self.drives_seen(drives);
        }
        if let Key::BlockStorage(name) = &key {
            self.looked_at_block(name);
        }
        if let Key::ClientMount(name) = &key {
            for uid in self.world.vanished_under(name) {
                self.related(Key::Vanished(uid));
            }
        }
        if !self.again.contains(&key) && handled == self.world.fingerprint(&key) {
            // A watch was faster than the end of the pass: what woke the object meanwhile is the pass's own finalizer.
            self.queue.satisfy(&key);
        }
        match handled.filter(|_| pass.done && !self.again.contains(&key)) {
            Some(print) => drop(self.settled.insert(key.clone(), print)),
            None => drop(self.settled.remove(&key)),
        }
        self.queue.finished(&key, pass.retry, Instant::now());
        if retold {
            self.retold(&key);
        }
    }
}

//! Starts passes, and gives each pass the part of the cache that it reads.

use controller::{Retry, patch::WriteError};
use std::{panic::AssertUnwindSafe, sync::Arc, time::Instant};

use agent::desired::Goal;
use api::NodeContainers;
use futures::FutureExt;
use kube::ResourceExt;
use storage::Panicked;

use super::{Agent, ERASING};
use crate::{
    core::{Context, Key, Pass},
    kinds::{
        block_storage,
        client_mount::{
            self,
            prepare::{Prepared, prepare_for},
            start::may_run_beside_clean_up,
        },
        container, lustre_mgt, movement, node, node_storage,
    },
};

impl Agent {
    pub(super) fn start_passes(&mut self) {
        let (context, mut erasing) = (&self.context, self.erasing());
        let may_begin = |key: &Key| {
            let sites = (&context.site, &context.temporary);
            let apart = !self.clean_up.running()
                || may_run_beside_clean_up(key, &self.mounts_to_keep, &self.cache, sites);
            if !apart || !self.cache.erases(key) {
                return apart;
            }
            erasing += 1;
            erasing <= ERASING
        };
        for key in self.queue.start(Instant::now(), may_begin) {
            if self.waits_for_blocks(&key) {
                // The agent wakes this mount again after the passes over the block storages under it.
                self.queue.finished(&key, Retry::OnChange, Instant::now());
                continue;
            }
            self.woken_meanwhile.remove(&key);
            self.start(&key);
        }
    }

    fn erasing(&self) -> usize {
        self.queue.running().filter(|key| self.cache.erases(key)).count()
    }

    fn waits_for_blocks(&self, key: &Key) -> bool {
        matches!(key, Key::ClientMount(name) if self.after_blocks.contains_key(name))
    }

    fn start(&mut self, key: &Key) {
        if let Some(print) = self.cache.fingerprint(key) {
            self.handled.insert(key.clone(), print);
        }
        self.status.count(key);
        let started = match key {
            Key::Node => self.start_node(),
            Key::BlockStorage(name) => self.start_block_storage(name),
            Key::NodeStorage(name) => self.start_node_storage(name),
            Key::ClientMount(name) => self.start_client_mount(name),
            Key::Vanished(uid) => self.start_vanished(uid),
            Key::LustreMgt(name) => self.start_lustre_mgt(name),
            Key::Containers(name) => self.start_containers(name),
            Key::Movement(name) => self.start_movement(name),
        };
        if started.is_none() {
            self.failing.remove(key);
            self.conflicts.remove(key);
            self.progress.remove(key);
            self.handled.remove(key);
            self.queue.finished(key, Retry::OnChange, Instant::now());
            if let Key::BlockStorage(name) = key {
                self.block_pass_ended(name);
            }
        }
    }

    /// Starts the pass that `begin` returns: the result of the pass's writes, and the pass.
    fn spawn<F>(&mut self, key: Key, begin: impl FnOnce(Arc<Context>, Pass) -> F)
    where
        F: Future<Output = (Result<(), WriteError>, Pass)> + Send + 'static,
    {
        let work = begin(Arc::clone(&self.context), Pass::default());
        self.passes.spawn(async move {
            let pass = match AssertUnwindSafe(work).catch_unwind().await {
                Ok((result, pass)) => pass.with_result(result),
                // A pass changes the agent only through its result, so the agent's state is sound after a panic.
                Err(panic) => Pass::panicked(&key, &Panicked::from_payload(&*panic)),
            };
            (key, pass)
        });
    }

    fn start_node(&mut self) -> Option<()> {
        let block_storage_uids = self.cache.block_storage_uids();
        let view = node::reconcile::NodeView {
            object: self.cache.nnf_node().cloned(),
            chassis: self.cache.chassis(),
            block_storage_uids,
            reported: self.cache.reported_namespaces(),
            owners: self.cache.volume_owners(),
        };
        let health = self.status.health.clone();
        self.spawn(Key::Node, |context, mut pass| async move {
            (node::reconcile::reconcile(&context, &view, &health, &mut pass).await, pass)
        });
        Some(())
    }

    fn start_block_storage(&mut self, name: &str) -> Option<()> {
        let view = block_storage::view::BlockStorageView::new(&self.cache, name)?;
        self.spawn(Key::BlockStorage(name.to_owned()), |context, mut pass| async move {
            (block_storage::reconcile::reconcile(&context, &view, &mut pass).await, pass)
        });
        Some(())
    }

    fn start_node_storage(&mut self, name: &str) -> Option<()> {
        let view = node_storage::view::NodeStorageView::new(&self.cache, name)?;
        self.spawn(Key::NodeStorage(name.to_owned()), |context, mut pass| async move {
            (node_storage::reconcile::reconcile(&context, &view, &mut pass).await, pass)
        });
        Some(())
    }

    fn start_client_mount(&mut self, name: &str) -> Option<()> {
        let object = Arc::clone(self.cache.client_mount(name)?);
        // An object without a resourceVersion comes from a record on disk: the agent could not read its current version
        // from the API.
        object.resource_version()?;
        let (site, targets) = (&self.context.site, &mut self.targets_in_use);
        let (view, moved) =
            client_mount::reconcile::ClientMountView::new(object, &self.cache, site, targets);
        self.wake_claimants(&moved);
        self.spawn(Key::ClientMount(name.to_owned()), |context, mut pass| async move {
            (client_mount::reconcile::reconcile(&context, view, &mut pass).await, pass)
        });
        Some(())
    }

    fn start_vanished(&mut self, uid: &str) -> Option<()> {
        let object = Arc::clone(self.cache.vanished(uid)?);
        if self.handled.contains_key(&Key::ClientMount(object.name_any())) {
            // The running pass over the ClientMount may have removed the finalizer itself. When that pass ends, the
            // agent wakes this key again if any mount is left.
            return None;
        }
        let Prepared { work, dropped, moved } = prepare_for(
            &object,
            Goal::Unmounted,
            &self.cache,
            &self.context.site,
            &mut self.targets_in_use,
        );
        self.wake_claimants(&moved);
        self.spawn(Key::Vanished(uid.to_owned()), |context, mut pass| async move {
            client_mount::reconcile::clean_up(&context, &object, (work, dropped), &mut pass).await;
            (Ok(()), pass)
        });
        Some(())
    }

    fn start_lustre_mgt(&mut self, name: &str) -> Option<()> {
        let object = Arc::clone(self.cache.lustre_mgt(name)?);
        self.spawn(Key::LustreMgt(name.to_owned()), |context, mut pass| async move {
            (lustre_mgt::reconcile(&context, &object, &mut pass).await, pass)
        });
        Some(())
    }

    fn start_containers(&mut self, name: &str) -> Option<()> {
        let object = Arc::clone(self.cache.containers(name)?);
        if object.spec.containers.is_empty() {
            return self.start_packages(name, object);
        }
        let host = Arc::clone(self.context.containers.as_ref()?);
        let view = container::ContainersView::new(object, &self.cache, &self.mounted);
        self.spawn(Key::Containers(name.to_owned()), |context, mut pass| async move {
            (container::reconcile(&context, &host, &view, &mut pass).await, pass)
        });
        Some(())
    }

    fn start_packages(&mut self, name: &str, object: Arc<NodeContainers>) -> Option<()> {
        let packages = self.context.packages.clone()?;
        self.spawn(Key::Containers(name.to_owned()), |context, mut pass| async move {
            (container::packages::reconcile(&context, &packages, &object, &mut pass).await, pass)
        });
        Some(())
    }

    fn start_movement(&mut self, name: &str) -> Option<()> {
        let object = self.cache.movement(name);
        let object = object.filter(|object| object.is_ours() && !object.is_by_mpi()).cloned();
        let uid = object.as_ref().and_then(|object| movement::desired::uid_of(object).ok());
        self.context.movers.abandon(name, uid);
        let object = object?;
        let waiting = self.cache.movements.iter().filter_map(|object| movement::waiting(object));
        let view = movement::MovementView { object, waiting: waiting.collect() };
        self.spawn(Key::Movement(name.to_owned()), |context, mut pass| async move {
            (movement::reconcile(&context, &view, &mut pass).await, pass)
        });
        Some(())
    }

    pub(super) fn wake_claimants(&mut self, uids: &[String]) {
        let name_of = |uid: &String| {
            self.cache
                .client_mounts
                .iter()
                .find(|object| object.uid().as_ref() == Some(uid))
                .map(|object| object.name_any())
        };
        let names: Vec<String> = uids.iter().filter_map(name_of).collect();
        for name in names {
            self.wake_related(Key::ClientMount(name));
        }
    }
}

//! A copy of the agent's state, for plans.

use std::{collections::BTreeSet, mem::take, sync::Arc};

use agent::targets::TargetsInUse;
use kube::ResourceExt;
use proto::v1::ObjectPlan;
use tokio::sync::{mpsc, oneshot};

use super::{Planned, blocks, containers, mounts, storages};
use crate::{
    core::{Cache, Context, Key},
    kinds::{
        block_storage::view::BlockStorageView, client_mount::prepare::record_change,
        node_storage::view::NodeStorageView,
    },
};

/// Requests of plans to the agent's main loop, each with a channel for the snapshot. The agent drops the channel if it
/// has not read all objects yet.
pub type SnapshotRequests = mpsc::Receiver<oneshot::Sender<Snapshot>>;

/// A copy of what passes read. Changes of the copy do not reach the agent.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub context: Arc<Context>,
    pub cache: Cache,
    pub targets_in_use: TargetsInUse,
    /// Uids of the ClientMounts that are mounted.
    pub mounted: BTreeSet<String>,
}

impl Snapshot {
    /// Returns the keys of all objects for which the agent can plan.
    pub fn keys(&self) -> Vec<Key> {
        let cannot_plan =
            |key: &Key| matches!(key, Key::Node | Key::LustreMgt(_) | Key::Movement(_));
        self.cache.all_keys().into_iter().filter(|key| !cannot_plan(key)).collect()
    }

    /// Handles the changes of ClientMounts in the copy as the agent handles changes from the API: mounts of the
    /// versions before the changes are unmounted.
    pub fn record_changes(&mut self) {
        for (before, after) in take(&mut self.cache.altered) {
            let site = &self.context.site;
            record_change(&before, &after, &mut self.cache, site, &self.targets_in_use);
        }
    }

    /// Returns the plans for these objects. Storage comes before what uses it; for deletions, the reverse.
    pub async fn plans(mut self, mut keys: Vec<Key>, deletes: bool) -> Vec<ObjectPlan> {
        keys.sort_by_key(|key| if deletes { -rank(key) } else { rank(key) });
        let mut plans = Vec::new();
        for key in keys {
            let name = self.name(&key);
            let namespace = self.context.node.to_string();
            if let Some(planned) = self.plan(&key).await {
                plans.push(planned.into_message(key.kind(), &namespace, &name));
            }
        }
        plans
    }

    /// Returns the plan for one object; `None` if the agent does not know the object.
    async fn plan(&mut self, key: &Key) -> Option<Planned> {
        let context = Arc::clone(&self.context);
        match key {
            Key::BlockStorage(name) => {
                let view = BlockStorageView::new(&self.cache, name)?;
                Some(blocks::plan(&context, &self.cache, view).await)
            }
            Key::NodeStorage(name) => {
                let view = NodeStorageView::new(&self.cache, name)?;
                Some(storages::plan(&context, view).await)
            }
            Key::ClientMount(name) => mounts::plan(self, name).await,
            Key::Vanished(uid) => mounts::plan_vanished(self, uid).await,
            Key::Containers(name) => containers::plan(self, name).await,
            Key::Node | Key::LustreMgt(_) | Key::Movement(_) => None,
        }
    }

    fn name(&self, key: &Key) -> String {
        let vanished = match key {
            Key::Vanished(uid) => self.cache.vanished(uid),
            _ => None,
        };
        vanished.map_or_else(|| key.name().to_owned(), |mount| mount.name_any())
    }
}

/// Returns the place of a kind in the order in which a job's objects are made.
fn rank(key: &Key) -> i8 {
    match key {
        Key::BlockStorage(_) => 0,
        Key::NodeStorage(_) => 1,
        Key::ClientMount(_) | Key::Vanished(_) => 2,
        Key::Containers(_) => 3,
        Key::Node | Key::LustreMgt(_) | Key::Movement(_) => 4,
    }
}

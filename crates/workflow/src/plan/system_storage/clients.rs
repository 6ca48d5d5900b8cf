//! Gives computes access to a system storage, mounts it on them, and withdraws it from computes that are not chosen.

use std::collections::{BTreeMap, BTreeSet};

use api::{ClientMount, NnfNodeBlockStorage, Servers, nnf_system_storage::SystemStorageType};
use kube::ResourceExt;

use super::{
    choice::{Choice, Client},
    presented::Presented,
};
use crate::{
    objects::{
        allocation::{Slot, allocations, slot},
        block,
        mount::is_unmounted,
        system_storage::SystemStorageView,
    },
    plan::{
        mounts::{MountMaker, MountProgress, keep_access, set_access, still_mounted},
        teardown::remove_mounts,
    },
    progress::Progress,
};

/// The computes that a plan serves now.
struct Clients<'a> {
    view: &'a SystemStorageView<'a>,
    choice: &'a Choice<'a>,
    /// The allocation of each chosen compute whose storage is placed.
    slots: BTreeMap<&'a str, Slot>,
    /// Chosen computes that are down, for which the storage does not wait.
    down: BTreeSet<&'a str>,
    /// Chosen computes whose allocation another node still has mounted, with this node.
    blocked: BTreeMap<&'a str, &'a str>,
}

/// Attaches the storage to the chosen computes, and mounts it on them if the storage says so.
pub(super) fn serve(
    view: &SystemStorageView<'_>,
    presented: &Presented<'_>,
    servers: &Servers,
    choice: &Choice<'_>,
) -> Progress {
    let clients = Clients::new(view, servers, choice);
    let mounts = if view.object.spec.make_client_mounts {
        clients.mount(presented)
    } else {
        clients.wait_for_access()
    };
    let access = view.storage.blocks.values();
    let access = access
        .filter_map(|block| set_access(block, |allocation| clients.access(block, allocation)));
    let strays = view.storage.mounts.values().map(|mount| &**mount);
    let strays = strays.filter(|mount| clients.is_stray(presented, mount));
    mounts.and(remove_mounts(view.site, strays)).with(access)
}

impl<'a> Clients<'a> {
    fn new(view: &'a SystemStorageView<'a>, servers: &Servers, choice: &'a Choice<'a>) -> Self {
        let placed = allocations(servers);
        let slot_of = |(compute, client): (&&'a str, &Client<'a>)| {
            let allocation = placed.iter().find(|allocation| allocation.rabbit == client.rabbit)?;
            let slot = Slot {
                rabbit: client.rabbit.to_owned(),
                name: allocation.name.clone(),
                index: client.index,
            };
            Some((*compute, slot))
        };
        let slots: BTreeMap<&str, Slot> = choice.clients.iter().filter_map(slot_of).collect();
        let ignores = view.object.spec.ignore_offline_computes;
        let down = choice.clients.keys().copied();
        let down = down.filter(|compute| ignores && view.site.is_down(compute)).collect();
        let spec = &view.object.spec;
        let mounts_xfs = spec.make_client_mounts && spec.kind == SystemStorageType::Xfs;
        let other = |compute: &str, slot: &Slot| match mounts_xfs {
            true => {
                other_user(view, compute, slot).or_else(|| other_with_access(view, compute, slot))
            }
            false if !spec.shared => other_user(view, compute, slot),
            false => None,
        };
        let blocked = slots
            .iter()
            .filter_map(|(compute, slot)| Some((*compute, other(compute, slot)?)))
            .collect();
        Self { view, choice, slots, down, blocked }
    }

    /// Returns the nodes other than the rabbit that get access to an allocation.
    fn access(&self, block: &NnfNodeBlockStorage, allocation: usize) -> Vec<String> {
        let rabbit = block.namespace().unwrap_or_default();
        let now = || block.spec.allocations[allocation].access.clone();
        // Nothing is withdrawn from a resting rabbit's computes, nor while a mount cannot be read.
        if self.choice.resting.contains(rabbit.as_str()) {
            return now();
        }
        let kept = if self.view.storage.unreadable.is_empty() {
            keep_access(block, allocation, &still_mounted(self.view.site, &self.view.storage))
        } else {
            now()
        };
        let mut nodes: Vec<String> =
            self.wanted(block, allocation, &now()).map(str::to_owned).collect();
        for node in kept {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        nodes
    }

    /// Returns the chosen computes of an allocation. A compute that is down, or whose allocation another node has mounted,
    /// keeps its access, and gets none.
    fn wanted<'b>(
        &'b self,
        block: &'b NnfNodeBlockStorage,
        allocation: usize,
        now: &'b [String],
    ) -> impl Iterator<Item = &'a str> + 'b {
        let (rabbit, name) = (block.namespace().unwrap_or_default(), block.name_any());
        let is_shared = block.spec.shared_allocation;
        let is_here = move |slot: &Slot| {
            slot.rabbit == rabbit
                && slot.name == name
                && (is_shared || usize::try_from(slot.index) == Ok(allocation))
        };
        let here = self.slots.iter().filter(move |(_, slot)| is_here(slot));
        here.map(|(compute, _)| *compute).filter(move |compute| {
            let is_given = now.iter().any(|node| node == compute);
            let waits = self.down.contains(compute) || self.blocked.contains_key(compute);
            is_given || !waits
        })
    }

    /// Waits until the rabbits have given access to all chosen computes.
    fn wait_for_access(&self) -> Progress {
        let has_access = |compute: &str, slot: &Slot| {
            let block = self.view.storage.blocks.get(&(slot.rabbit.clone(), slot.name.clone()));
            block.is_some_and(|block| block::has_access(block, compute))
        };
        let late = self
            .slots
            .iter()
            .filter(|(compute, slot)| !self.down.contains(*compute) && !has_access(compute, slot));
        let rabbits: BTreeSet<String> = late.map(|(_, slot)| slot.rabbit.clone()).collect();
        let waited = MountProgress { nodes: rabbits, ..MountProgress::default() };
        waited.progress(&self.view.storage, "access of computes on")
    }

    /// Mounts the storage on the chosen computes.
    fn mount(&self, presented: &Presented<'_>) -> Progress {
        let group = presented.group();
        let file_system = presented.jobdw.file_system;
        let maker = MountMaker { view: &presented.view, index: 0, file_system, group };
        let mut waited = MountProgress::default();
        let mut others = BTreeSet::new();
        for (compute, slot) in &self.slots {
            if let Some(other) = self.blocked.get(compute) {
                others.insert(*other);
            } else if !self.down.contains(compute) && !self.has_stray(presented, compute) {
                let at = mount_key(group.servers.as_deref(), compute);
                waited = waited.and(maker.mount_at(&at, slot));
            }
        }
        let progress = waited.progress(group, "mount on");
        if others.is_empty() {
            progress
        } else {
            progress.and(Progress::wait_on("unmount on", others))
        }
    }

    fn has_stray(&self, presented: &Presented<'_>, compute: &str) -> bool {
        let at = mount_key(presented.group().servers.as_deref(), compute);
        let mount = self.view.storage.mounts.get(&at);
        mount.is_some_and(|mount| self.is_stray(presented, mount))
    }

    /// Returns true if a mount is not one of those that the storage asks for now.
    fn is_stray(&self, presented: &Presented<'_>, mount: &ClientMount) -> bool {
        let spec = &self.view.object.spec;
        let present = mount.spec.mounts.first();
        let on = present.and_then(slot);
        // What cannot be read may be the storage that the mount needs.
        let is_unread =
            |rabbit: &str| self.view.storage.unreadable.iter().any(|(place, _)| place == rabbit);
        let stays = |rabbit: &str| self.choice.resting.contains(rabbit) || is_unread(rabbit);
        if on.as_ref().is_some_and(|slot| stays(&slot.rabbit)) {
            return false;
        }
        let file_system = presented.jobdw.file_system;
        let group = presented.group();
        let maker = MountMaker { view: &presented.view, index: 0, file_system, group };
        let is_wanted = spec.make_client_mounts
            && self.slots.get(mount.spec.node.as_str()) == on.as_ref()
            && on.is_some()
            && present.is_some_and(|present| present.mount_path == maker.path());
        !is_wanted
    }
}

/// Returns another node that may have an allocation mounted.
fn other_user<'a>(
    view: &'a SystemStorageView<'_>,
    compute: &str,
    wanted: &Slot,
) -> Option<&'a str> {
    let mounts = view.storage.mounts.values().filter(|mount| mount.spec.node != compute);
    let mut mounted = mounts.filter(|mount| !is_unmounted(view.site, mount));
    let other =
        mounted.find(|mount| mount.spec.mounts.first().and_then(slot).as_ref() == Some(wanted));
    other.map(|mount| mount.spec.node.as_str())
}

/// Returns another node that still has access to an allocation: it may still write to an XFS that it had mounted.
fn other_with_access<'a>(
    view: &'a SystemStorageView<'_>,
    compute: &str,
    wanted: &Slot,
) -> Option<&'a str> {
    let block = view.storage.blocks.get(&(wanted.rabbit.clone(), wanted.name.clone()))?;
    let place =
        if block.spec.shared_allocation { 0 } else { usize::try_from(wanted.index).ok()? };
    let mut nodes = block.status.as_ref()?.allocations.get(place)?.accesses.keys();
    nodes.find(|node| **node != wanted.rabbit && *node != compute).map(String::as_str)
}

/// Returns the key of a compute's ClientMount.
fn mount_key(servers: Option<&Servers>, compute: &str) -> (String, String) {
    let namespace = servers.and_then(ResourceExt::namespace).unwrap_or_default();
    let name = servers.map(ResourceExt::name_any).unwrap_or_default();
    (compute.to_owned(), format!("{namespace}-{name}"))
}

//! The storage that containers use.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use api::{ClientMount, NnfContainerProfileData, ResourceError, Severity, WorkflowState};
use containers::{Device, Run, StoragePath, StorageSource, names};
use controller::ObjectKey;
use directive::{Command, Container, FileSystem, StorageArgument, Variable};
use kube::ResourceExt;

use crate::{
    objects::{
        allocation::slot,
        mount::{is_mounted, mount_path},
        part::{Part, all_parts},
        view::{Containers, Group, View},
    },
    plan::{checks, global_lustre},
    progress::Progress,
};

/// Checks that containers can use the global Lustre file systems that they name.
pub(super) fn check(
    view: &View<'_>,
    container: &Container,
    profile: &NnfContainerProfileData,
) -> Result<(), ResourceError> {
    let mut global =
        container.storages.iter().filter(|argument| argument.variable == Variable::Global);
    global.try_for_each(|argument| global_lustre::storage_path(view, profile, argument).map(drop))
}

/// Returns the paths of the storage on every rabbit and in the containers there.
pub(super) fn paths(
    view: &View<'_>,
    container: &Container,
    profile: &NnfContainerProfileData,
) -> Vec<StoragePath> {
    let path = |argument: &StorageArgument| {
        if argument.variable == Variable::Global {
            // `wait_for_mounts` reports the error of a global Lustre, and no container starts before that error is
            // gone.
            return global_lustre::storage_path(view, profile, argument).ok();
        }
        let (index, file_system) = find_storage(view, argument)?;
        let path = mount_path(view, index, file_system);
        Some(StoragePath { variable: argument.key.clone(), path, source: StorageSource::Rabbit })
    };
    container.storages.iter().filter_map(path).collect()
}

/// Returns the devices of the run's raw storage by rabbit.
pub(super) fn devices(view: &View<'_>, container: &Container) -> BTreeMap<String, Vec<Device>> {
    let used = container.storages.iter().filter_map(|argument| find_storage(view, argument));
    let raw = used.filter(|(_, file_system)| *file_system == FileSystem::Raw);
    let raw: BTreeSet<usize> = raw.map(|(index, _)| index).collect();
    let rabbits = view.site.rabbits();
    let mut devices: BTreeMap<String, Vec<Device>> = BTreeMap::new();
    for index in raw {
        let mounts = view.directives[index].storage.mounts.values();
        for mount in mounts.filter(|mount| rabbits.contains(mount.spec.node.as_str())) {
            let rabbit_devices = devices.entry(mount.spec.node.clone()).or_default();
            rabbit_devices.extend(devices_of(view, index, mount));
        }
    }
    devices
}

/// Returns the devices of a directive's raw storage that a rabbit has mounted.
fn devices_of(view: &View<'_>, index: usize, mount: &ClientMount) -> impl Iterator<Item = Device> {
    let uid = view.workflow.uid().unwrap_or_default();
    let file_systems = &view.directives[index].storage.file_systems;
    mount.spec.mounts.iter().enumerate().map(move |(place, info)| {
        let at = slot(info).map(|slot| (slot.rabbit, slot.name));
        let file_system = at.and_then(|at| file_systems.get(&at));
        Device {
            name: names::volume(&uid, index, &mount.spec.node, place),
            path: info.mount_path.clone(),
            // Kubernetes takes no volume of 0 bytes.
            capacity: file_system.map_or(1, |storage| storage.spec.capacity.max(1)),
        }
    })
}

/// Checks that the new rabbits of a run are enabled. Rabbits on which the job has storage or containers
/// already may be disabled.
pub(super) fn check_enabled(view: &View<'_>, existing: &Containers, run: &Run<'_>) -> Progress {
    let servers = view.directives.iter().filter_map(|directive| directive.storage.servers.as_ref());
    let sets = servers.flat_map(|servers| &servers.spec.allocation_sets);
    let storage = sets.flat_map(|set| &set.storage).map(|part| part.name.as_str());
    let used: BTreeSet<&str> = storage.chain(all_parts(existing).map(Part::rabbit)).collect();
    let mut new = run.rabbits().filter(|rabbit| !used.contains(rabbit));
    let enabled = new.try_for_each(|rabbit| {
        let storage = view.site.storages.get(rabbit);
        storage.map_or(Ok(()), |storage| checks::enabled(rabbit, storage))
    });
    enabled.map_or_else(Progress::failed, |()| Progress::default())
}

/// Waits until every rabbit of the run has mounted the storage of the directives; fails if a global
/// Lustre cannot be used.
pub(super) fn wait_for_mounts(view: &View<'_>, container: &Container, run: &Run<'_>) -> Progress {
    if let Err(error) = check(view, container, run.profile) {
        // The global Lustre was usable in Proposal and may become usable again, so the error is Major, not Fatal, and
        // the job does not end.
        return Progress::failed(ResourceError { severity: Severity::Major, ..error });
    }
    let used = container.storages.iter().filter_map(|argument| find_storage(view, argument));
    let used: Vec<usize> = used.map(|(index, _)| index).collect();
    // The mounts are collected once for all rabbits, because a job on many rabbits has many mounts.
    let mounts = used.iter().flat_map(|index| {
        let mounts = view.directives[*index].storage.mounts.values();
        mounts.filter(|mount| is_mounted(mount)).map(|mount| (*index, mount.spec.node.as_str()))
    });
    let mounted: BTreeSet<(usize, &str)> = mounts.collect();
    let has_all = |rabbit: &str| used.iter().all(|index| mounted.contains(&(*index, rabbit)));
    let waited = run.rabbits().filter(|rabbit| !has_all(rabbit));
    let waited: Vec<&str> = waited.collect();
    if waited.is_empty() { Progress::default() } else { Progress::wait_on("mount on", waited) }
}

/// Returns the directive that an argument names, and its file system.
fn find_storage(view: &View<'_>, argument: &StorageArgument) -> Option<(usize, FileSystem)> {
    let lines = view.workflow.spec.directives.iter().zip(&view.directives).enumerate();
    let mut storages = lines.filter_map(|(index, (line, directive))| {
        let command = Command::read(line)?;
        match (command, argument.variable) {
            (Command::Jobdw(jobdw), Variable::Job) if jobdw.name == argument.value => {
                Some((index, jobdw.file_system))
            }
            (Command::Persistentdw(used), Variable::Persistent) if used.name == argument.value => {
                let object = directive.persistent.as_ref()?.object.as_ref()?;
                Some((index, object.spec.fs_type.parse().ok()?))
            }
            _ => None,
        }
    });
    storages.next()
}

/// Returns the rabbits on which containers use the storage of a directive.
pub fn rabbits_using<'a>(view: &'a View<'_>, index: usize) -> BTreeSet<&'a str> {
    let is_used = containers_using(view, index).next().is_some();
    let computes = view.computes().filter(|_| is_used);
    computes.filter_map(|compute| view.site.rabbit_of.get(compute).map(String::as_str)).collect()
}

/// Returns the containers that use the storage of a directive.
fn containers_using<'a>(view: &'a View<'_>, index: usize) -> impl Iterator<Item = &'a Containers> {
    let lines = view.workflow.spec.directives.iter().zip(&view.directives);
    let users = lines.filter(move |(line, _)| {
        super::parse_container(line).is_some_and(|container| {
            container
                .storages
                .iter()
                .any(|argument| find_storage(view, argument).is_some_and(|(used, _)| used == index))
        })
    });
    users.map(|(_, directive)| &directive.containers)
}

/// Returns true if containers may still use the storage of a directive: in PostRun while one of them runs, in Teardown
/// while objects of one of them exist.
pub fn containers_may_use(view: &View<'_>, index: usize) -> bool {
    containers_using(view, index).any(|containers| {
        let is_ended =
            all_parts(containers).all(|part| part.state().is_ended()) && !containers.has_unreadable;
        !is_ended || view.state() == WorkflowState::Teardown && !containers.is_gone()
    })
}

/// Returns the storage of a directive, leaving out those mounts that containers on rabbits still use.
pub fn without_mounts_in_use<'a>(view: &'a View<'_>, index: usize) -> Cow<'a, Group> {
    let group = &view.directives[index].storage;
    if !containers_may_use(view, index) {
        return Cow::Borrowed(group);
    }
    let is_free = |(at, _): &(&ObjectKey, _)| !view.site.rabbits().contains(at.0.as_str());
    let mounts = group.mounts.iter().filter(is_free);
    let mounts = mounts.map(|(at, mount)| (at.clone(), mount.clone())).collect();
    Cow::Owned(Group { mounts, ..group.clone() })
}

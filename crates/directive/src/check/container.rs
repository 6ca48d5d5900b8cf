//! Checks whether a container profile admits the workflow's containers, and whether the storage that they use exists.

use super::{Known, MeaningFault, copy, file_system_of, list_choices};
use crate::command::{Command, Container, FileSystem, StorageArgument, Variable};
use crate::profile::ContainerProfile;

pub(super) fn faults(
    container: &Container,
    commands: &[(usize, Command)],
    known: &Known,
) -> Vec<MeaningFault> {
    let name = container.profile.clone();
    let Some(profile) = known.container_profiles.get(&name) else {
        let own = known.container_profiles.iter().filter(|(_, profile)| !profile.is_pinned);
        let known = list_choices("write", own.map(|(name, _)| name));
        return vec![MeaningFault::NoProfile { name, kind: "NnfContainerProfile", known }];
    };
    if profile.is_pinned {
        return vec![MeaningFault::Pinned { name }];
    }
    let mut faults: Vec<MeaningFault> = wrong_user_or_group(&name, profile, known).collect();
    for argument in &container.storages {
        faults.extend(unknown_storage(argument, &name, profile));
        faults.extend(storage_fault(argument, commands, known));
    }
    faults.extend(missing_storages(container, profile));
    faults
}

/// Reports storages that a `container` directive uses, but no other directive of the workflow makes or mounts.
pub(super) fn unnamed_storages<'a>(
    container: &'a Container,
    commands: &'a [(usize, Command)],
) -> impl Iterator<Item = MeaningFault> + 'a {
    let faults = container.storages.iter().filter_map(|argument| {
        // Without the site's objects, the only fault that can be found is a storage that no directive names.
        storage_fault(argument, commands, &Known::default())
    });
    faults.filter(|fault| matches!(fault, MeaningFault::NoStorage { .. }))
}

/// Reports a profile that is limited to another user or group.
fn wrong_user_or_group<'a>(
    name: &'a str,
    profile: &ContainerProfile,
    known: &Known,
) -> impl Iterator<Item = MeaningFault> + use<'a> {
    let limits = [("user", profile.user, known.user), ("group", profile.group, known.group)];
    limits.into_iter().filter_map(move |(whom, only, actual)| {
        let only = only.filter(|only| *only != actual)?;
        Some(MeaningFault::NotForUser { name: name.to_owned(), whom, only, actual })
    })
}

/// Reports a storage argument that the profile does not have.
fn unknown_storage(
    argument: &StorageArgument,
    name: &str,
    profile: &ContainerProfile,
) -> Option<MeaningFault> {
    if profile.storages.iter().any(|storage| storage.name == argument.key) {
        return None;
    }
    Some(MeaningFault::UnknownStorage {
        key: argument.key.clone(),
        value: argument.value.clone(),
        profile: name.to_owned(),
        known: list_choices("it has", profile.storages.iter().map(|storage| &storage.name)),
    })
}

fn storage_fault(
    argument: &StorageArgument,
    commands: &[(usize, Command)],
    known: &Known,
) -> Option<MeaningFault> {
    let (is_job, needed) = match argument.variable {
        Variable::Job => (true, "jobdw"),
        Variable::Persistent => (false, "persistentdw"),
        Variable::Global => return copy::path_fault(&argument.key, &argument.value, &[], known),
    };
    let (key, value) = (argument.key.clone(), argument.value.clone());
    match file_system_of(&value, is_job, commands, known) {
        None => Some(MeaningFault::NoStorage { key, name: value.clone(), value, needed }),
        Some(FileSystem::Gfs2 | FileSystem::Lustre | FileSystem::Raw) => None,
        Some(file_system @ FileSystem::Xfs) => {
            Some(MeaningFault::ContainerFileSystem { key, value, file_system })
        }
    }
}

/// Reports storages that the profile requires and the directive does not name.
fn missing_storages<'a>(
    container: &'a Container,
    profile: &'a ContainerProfile,
) -> impl Iterator<Item = MeaningFault> + 'a {
    let needed = profile.storages.iter().filter(|storage| !storage.is_optional);
    let is_present = |name: &str| container.storages.iter().any(|argument| argument.key == name);
    needed.filter(move |storage| !is_present(&storage.name)).map(|storage| {
        MeaningFault::MissingStorage {
            key: storage.name.clone(),
            profile: container.profile.clone(),
        }
    })
}

//! The site's own Lustre file systems, which no job makes: finds the file system that a path lies in, and gives
//! containers access to it.

use std::collections::BTreeSet;

use api::{
    LustreFileSystem, NnfContainerProfileData, ResourceError, nnf_container_profile::PvcMode,
};
use containers::{StoragePath, StorageSource};
use directive::{StorageArgument, location::is_beneath};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;

use crate::{
    names::reference,
    objects::{site::Site, view::View},
    progress::{transient_error, user_error},
};

/// Returns the directories where nodes mount the file systems; `None` while LustreFileSystems cannot be listed.
pub fn mount_roots(site: &Site) -> Option<Vec<String>> {
    let lustre = site.lustre.as_ref()?.values();
    let roots: BTreeSet<&str> = lustre.filter_map(|object| mount_root(object)).collect();
    Some(roots.into_iter().map(str::to_owned).collect())
}

/// Returns a reference to the global Lustre file system, or to the directory of [`crate::objects::site::Settings::directories`],
/// that a path lies in. `fieldPath` of the reference is the path of that file system or directory on the nodes.
pub fn reference_of(site: &Site, path: &str) -> Option<ObjectReference> {
    let lustre = site.lustre.iter().flatten().filter_map(|((namespace, name), object)| {
        let root = mount_root(object)?;
        Some((root, reference("LustreFileSystem", name, namespace)))
    });
    let directories = site.settings.directories.iter().map(|(root, name)| {
        let directory = ObjectReference { namespace: None, ..reference("Directory", name, "") };
        (root.trim_end_matches('/'), directory)
    });
    let above = lustre.chain(directories).filter(|(root, _)| is_beneath(path, root));
    let (root, found) = above.max_by_key(|(root, _)| root.len())?;
    Some(ObjectReference { field_path: Some(root.to_owned()), ..found })
}

/// Returns the volume source for the file system that an argument names. Pods can mount the file system only if the
/// LustreFileSystem lists their namespace, with the access mode that the profile asks for.
pub fn storage_path(
    view: &View<'_>,
    profile: &NnfContainerProfileData,
    argument: &StorageArgument,
) -> Result<StoragePath, ResourceError> {
    let StorageArgument { key, value, .. } = argument;
    let (namespace, mode) = (view.namespace(), access_mode(profile, key));
    if view.site.lustre.is_none() {
        return Err(transient_error(format!(
            "argument {key}={value}: the global Lustre file systems are not known, because LustreFileSystems cannot be listed; the coordinator's log says why, and the workflow continues once they are listed"
        )));
    }
    let Some((root, object)) = find_by_path(view.site, value, &namespace, &mode) else {
        return Err(user_error(format!(
            "argument {key}={value}: no global Lustre is mounted there any more; ask the administrator to create its LustreFileSystem again"
        )));
    };
    if view.site.settings.has_pods() && !grants_mode(object, &namespace, &mode) {
        return Err(mode_refused(argument, object, &namespace, &mode));
    }
    // The lustre-fs-operator gives this name to the PersistentVolumeClaim that it creates in a namespace.
    let claim = format!("{}-{namespace}-{}-pvc", object.name_any(), mode.as_str().to_lowercase());
    let source = StorageSource::Global { claim };
    Ok(StoragePath { variable: key.clone(), path: root.to_owned(), source })
}

fn mode_refused(
    StorageArgument { key, value, .. }: &StorageArgument,
    object: &LustreFileSystem,
    namespace: &str,
    mode: &PvcMode,
) -> ResourceError {
    let (owner_namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    user_error(format!(
        "argument {key}={value}: LustreFileSystem {owner_namespace}/{name} does not give the namespace {namespace} the mode {mode}; ask the administrator to add it to spec.namespaces.{namespace}.modes, or to name another pvcMode for {key} in the profile"
    ))
}

/// Returns the file system that a path lies in: the file system with the longest root. If several file systems have
/// this root, prefers a file system that gives pods the access mode.
fn find_by_path<'a>(
    site: &'a Site,
    path: &str,
    namespace: &str,
    mode: &PvcMode,
) -> Option<(&'a str, &'a LustreFileSystem)> {
    let all = site
        .lustre
        .iter()
        .flatten()
        .filter_map(|(_, object)| Some((mount_root(object)?, &**object)));
    let above = all.filter(|(root, _)| is_beneath(path, root));
    above.max_by_key(|(root, object)| (root.len(), grants_mode(object, namespace, mode)))
}

/// Returns the directory where nodes mount the file system; `None` if `mountRoot` is not absolute.
fn mount_root(object: &LustreFileSystem) -> Option<&str> {
    let root = object.spec.mount_root.trim_end_matches('/');
    root.starts_with('/').then_some(root)
}

fn grants_mode(object: &LustreFileSystem, namespace: &str, mode: &PvcMode) -> bool {
    object.spec.namespaces.get(namespace).is_some_and(|access| access.modes.contains(mode))
}

/// Returns the access mode that the profile gives to a storage argument.
fn access_mode(profile: &NnfContainerProfileData, key: &str) -> PvcMode {
    let storage = profile.storages.iter().find(|storage| storage.name == key);
    storage.and_then(|storage| storage.pvc_mode.clone()).unwrap_or(PvcMode::ReadWriteMany)
}

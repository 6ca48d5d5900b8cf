//! The site's own Lustre file systems, which no job makes: which one a path is on, and how containers get it.

use std::collections::BTreeSet;

use api::{
    LustreFileSystem, NnfContainerProfileData, ResourceError, nnf_container_profile::PvcMode,
};
use containers::{StoragePath, StorageSource};
use directive::{StorageArgument, location::is_beneath};
use kube::ResourceExt;

use crate::{
    progress::{transient_error, user_error},
    site::Site,
    view::View,
};

/// Where nodes have them mounted; `None` when nobody knows.
pub fn roots(site: &Site) -> Option<Vec<String>> {
    let roots: BTreeSet<&str> =
        site.lustre.as_ref()?.values().filter_map(|one| root(one)).collect();
    Some(roots.into_iter().map(str::to_owned).collect())
}

/// What containers see of the file system that an argument names. Pods get it only where it names their namespace, in the mode
/// of the profile.
pub fn storage(
    view: &View<'_>,
    profile: &NnfContainerProfileData,
    argument: &StorageArgument,
) -> Result<StoragePath, ResourceError> {
    let StorageArgument { key, value, .. } = argument;
    let (namespace, mode) = (view.namespace(), mode(profile, key));
    if view.site.lustre.is_none() {
        return Err(transient_error(format!(
            "argument {key}={value}: nobody knows the global Lustres, for LustreFileSystems cannot be listed; the coordinator's log says why, and this goes on when they are"
        )));
    }
    let Some((root, object)) = on_path(view.site, value, &namespace, &mode) else {
        return Err(user_error(format!(
            "argument {key}={value}: no global Lustre is mounted there any more; the administrator makes its LustreFileSystem again"
        )));
    };
    if view.site.settings.has_pods() && !gives(object, &namespace, &mode) {
        return Err(refused(argument, object, &namespace, &mode));
    }
    // As its controller names the claim that it makes in a namespace.
    let claim = format!("{}-{namespace}-{}-pvc", object.name_any(), mode.as_str().to_lowercase());
    let source = StorageSource::Global { claim };
    Ok(StoragePath { variable: key.clone(), path: root.to_owned(), source })
}

fn refused(
    StorageArgument { key, value, .. }: &StorageArgument,
    object: &LustreFileSystem,
    namespace: &str,
    mode: &PvcMode,
) -> ResourceError {
    let (of, name) = (object.namespace().unwrap_or_default(), object.name_any());
    user_error(format!(
        "argument {key}={value}: LustreFileSystem {of}/{name} does not give the namespace {namespace} the mode {mode}; the administrator adds it to spec.namespaces.{namespace}.modes, or names another pvcMode for {key} in the profile"
    ))
}

/// The file system that a path is on: of several the one whose root is the longest, and of those one that pods may have.
fn on_path<'a>(
    site: &'a Site,
    path: &str,
    namespace: &str,
    mode: &PvcMode,
) -> Option<(&'a str, &'a LustreFileSystem)> {
    let all = site.lustre.iter().flatten().filter_map(|(_, one)| Some((root(one)?, &**one)));
    let above = all.filter(|(root, _)| is_beneath(path, root));
    above.max_by_key(|(root, one)| (root.len(), gives(one, namespace, mode)))
}

/// Where nodes have it mounted; `None` for what is no place for a file system.
fn root(of: &LustreFileSystem) -> Option<&str> {
    let root = of.spec.mount_root.trim_end_matches('/');
    root.starts_with('/').then_some(root)
}

fn gives(of: &LustreFileSystem, namespace: &str, mode: &PvcMode) -> bool {
    of.spec.namespaces.get(namespace).is_some_and(|one| one.modes.contains(mode))
}

/// How the profile says that pods use it.
fn mode(profile: &NnfContainerProfileData, key: &str) -> PvcMode {
    let storage = profile.storages.iter().find(|one| one.name == key);
    storage.and_then(|one| one.pvc_mode.clone()).unwrap_or(PvcMode::ReadWriteMany)
}

//! Lists the mount points that the clean-up must leave alone: all mount points that an object may use. Does no I/O.

use controller::describe;
use std::collections::BTreeSet;

use agent::{
    desired::{Goal, MountProblem, MountUnits},
    site::Site,
};
use api::{ClientMount, NnfNodeStorage};
use kube::ResourceExt;
use storage::desired::MountPoint;

use super::prepare::{former_points, units};
use crate::{
    core::{Cache, Key},
    kinds::node_storage::desired::{TemporaryRoot, count},
};

/// Returns every mount point that an object of this rabbit may use. Superfluous mount points are harmless; a mount
/// point that is missing from the list would be unmounted.
pub fn points_to_keep(
    cache: &Cache,
    site: &Site,
    temporary: &TemporaryRoot,
) -> Result<Vec<MountPoint>, String> {
    let mut keep = Vec::new();
    let unreadable =
        cache.client_mounts.unreadable().chain(cache.node_storages.unreadable()).next();
    if let Some(metadata) = unreadable {
        let name = metadata.name.as_deref().unwrap_or_default();
        return Err(format!(
            "the mounts of {name} are unknown, because the object cannot be decoded"
        ));
    }
    let ours = |namespace: Option<String>| namespace.as_deref() == Some(site.node.as_str());
    for object in cache.client_mounts.iter().filter(|mount| ours(mount.namespace())) {
        keep.extend(mount_points(object, cache, site)?);
    }
    for object in cache.node_storages.iter().filter(|storage| ours(storage.namespace())) {
        keep.extend(temporary_points(object, cache, temporary)?);
    }
    Ok(keep)
}

/// Returns whether a pass over an object may run beside the clean-up: it must mount only at mount points that the
/// clean-up keeps, and detach nothing.
pub fn may_run_beside_clean_up(
    key: &Key,
    kept: &BTreeSet<MountPoint>,
    cache: &Cache,
    (site, temporary): (&Site, &TemporaryRoot),
) -> bool {
    let are_kept = |points: Result<Vec<MountPoint>, String>| {
        points.is_ok_and(|points| points.iter().all(|point| kept.contains(point)))
    };
    match key {
        Key::Node | Key::LustreMgt(_) | Key::Containers(_) | Key::Movement(_) => true,
        Key::BlockStorage(name) => cache
            .block_storage(name)
            .is_none_or(|object| object.metadata.deletion_timestamp.is_none()),
        Key::NodeStorage(name) => cache
            .node_storage(name)
            .is_none_or(|object| are_kept(temporary_points(object, cache, temporary))),
        Key::ClientMount(name) => cache
            .client_mount(name)
            .is_none_or(|object| are_kept(mount_points(object, cache, site))),
        // The clean-up removes the mounts of this object.
        Key::Vanished(_) => false,
    }
}

fn temporary_points(
    object: &NnfNodeStorage,
    cache: &Cache,
    temporary: &TemporaryRoot,
) -> Result<Vec<MountPoint>, String> {
    let moves_temporary = cache.profile(object).is_ok_and(|profile| {
        let data = profile.data();
        let lines = [&data.xfs_storage, &data.raw_storage, &data.gfs2_storage];
        lines.iter().any(|lines| lines.variable_override.contains_key("$TEMP_DIR"))
    });
    if moves_temporary {
        return Err(format!("{}: its profile moves $TEMP_DIR", describe(object)));
    }
    // An object with an invalid count was never mounted.
    let indexes = 0..count(object).unwrap_or(0);
    Ok(indexes.filter_map(|index| temporary.mount_point(&object.name_any(), index).ok()).collect())
}

fn mount_points(
    object: &ClientMount,
    cache: &Cache,
    site: &Site,
) -> Result<Vec<MountPoint>, String> {
    let leaving = matches!(Goal::of(object), Ok(Goal::Unmounted));
    let points = match units(object, Goal::Unmounted, cache, site) {
        // The path of a mount that is to be removed may be unknown: the clean-up may remove this mount as well. The
        // path of a mount that is to stay must be known.
        Ok(units)
            if units.mounts.iter().enumerate().all(|(place, mount)| {
                is_known(mount) || leaving && units.has_unknown_path(place)
            }) =>
        {
            Ok(known_points(&units))
        }
        _ => points_in_spec(object, site),
    };
    let mut points = points.map_err(|why| format!("{}: {why}", describe(object)))?;
    points.extend(former_points(object, cache, site));
    Ok(points)
}

/// Returns whether the mount's path is known. A path that cannot be a mount point on this node never was a mount point,
/// so it counts as known.
fn is_known<T>(mount: &Result<T, agent::desired::MountError>) -> bool {
    mount.as_ref().err().is_none_or(|error| matches!(error.problem, MountProblem::MountPath(_)))
}

fn known_points(units: &MountUnits) -> Vec<MountPoint> {
    units.mount_points().cloned().collect()
}

fn points_in_spec(object: &ClientMount, site: &Site) -> Result<Vec<MountPoint>, String> {
    if site.index_root.is_some() {
        return Err("its index tree cannot be derived from its spec".to_owned());
    }
    let mut paths = Vec::new();
    for mount in &object.spec.mounts {
        if mount.mount_path.contains('$') {
            return Err(format!(
                "variables in mountPath {:?} cannot be resolved without its profile",
                mount.mount_path
            ));
        }
        paths.extend(MountPoint::parse(&mount.mount_path, &site.roots).ok());
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use agent::{site::Side, volumes::Volumes};
    use api::client_mount::MountState;
    use controller::Event;
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
    use storage::desired::AllowedRoots;

    use super::*;
    use crate::samples;

    fn site() -> Site {
        let roots = AllowedRoots::new([PathBuf::from("/mnt/nnf")]).unwrap();
        Site {
            node: "rabbit-1".parse().unwrap(),
            side: Side::Rabbit,
            roots,
            index_root: None,
            volumes: Volumes::Plain,
        }
    }

    fn temporary() -> TemporaryRoot {
        TemporaryRoot {
            path: "/mnt/temp".into(),
            roots: AllowedRoots::new([PathBuf::from("/mnt/temp")]).unwrap(),
        }
    }

    fn points_for(mount: ClientMount) -> Result<Vec<String>, String> {
        let mut cache = Cache::new("rabbit-1".parse().unwrap());
        cache.apply(Event::Applied(Ok(mount)));
        cache.apply(Event::Applied(Ok(samples::node_storage(2, "xfs"))));
        points_to_keep(&cache, &site(), &temporary())
            .map(|paths| paths.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn mounts_and_temporary_mounts_are_kept_without_a_profile() {
        let kept = points_for(samples::client_mount(2)).unwrap();
        let tree = "/mnt/nnf/3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21-0";
        assert_eq!(
            kept,
            [
                format!("{tree}/node-0"),
                format!("{tree}/node-1"),
                format!("/mnt/temp/{0}-0", samples::NAME),
                format!("/mnt/temp/{0}-1", samples::NAME)
            ]
        );
    }

    /// Passes over objects that existed when the clean-up began may run beside it. Passes over newer objects wait, and
    /// so does a pass that would detach a namespace under a mount.
    #[test]
    fn only_passes_over_kept_mount_points_run_beside_the_clean_up() {
        let mut cache = Cache::new("rabbit-1".parse().unwrap());
        cache.apply(Event::Applied(Ok(samples::client_mount(2))));
        cache.apply(Event::Applied(Ok(samples::node_storage(2, "xfs"))));
        cache.apply(Event::Applied(Ok(samples::block_storage_ready(2))));
        let (site, temporary) = (site(), temporary());
        let kept: BTreeSet<_> =
            points_to_keep(&cache, &site, &temporary).unwrap().into_iter().collect();
        let may_run = |cache: &Cache, key: &Key| {
            may_run_beside_clean_up(key, &kept, cache, (&site, &temporary))
        };
        let mount = Key::ClientMount(samples::client_mount(2).name_any());
        let storage = Key::NodeStorage(samples::NAME.into());
        let block = Key::BlockStorage(samples::NAME.into());
        for key in [&Key::Node, &mount, &storage, &block] {
            assert!(may_run(&cache, key), "{key}");
        }
        assert!(!may_run(&cache, &Key::Vanished("some".into())));

        let mut moved = samples::client_mount(2);
        moved.spec.mounts[0].mount_path = "/mnt/nnf/elsewhere".into();
        cache.apply(Event::Applied(Ok(moved)));
        cache.apply(Event::Applied(Ok(samples::node_storage(3, "xfs"))));
        let mut leaving = samples::block_storage_ready(2);
        leaving.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        cache.apply(Event::Applied(Ok(leaving)));
        for key in [&mount, &storage, &block] {
            assert!(!may_run(&cache, key), "{key}");
        }
    }

    #[test]
    fn an_unresolved_path_postpones_the_clean_up() {
        let mut mount = samples::client_mount(1);
        mount.spec.mounts[0].mount_path = "/mnt/nnf/$SOMETHING".into();
        assert!(points_for(mount).unwrap_err().contains("$SOMETHING"));
        // `$VG_NAME` depends on the profile.
        let mut mount = samples::client_mount(1);
        mount.spec.mounts[0].mount_path = "/mnt/nnf/$VG_NAME".into();
        assert!(points_for(mount.clone()).unwrap_err().contains("$VG_NAME"));
        mount.spec.desired_state = MountState::Unmounted;
        assert_eq!(
            points_for(mount).unwrap().len(),
            2,
            "the temporary mounts are kept; the mount is to be removed"
        );
    }

    #[test]
    fn mount_points_are_kept_for_another_spec_node_but_not_for_another_kubernetes_namespace() {
        let mut mount = samples::client_mount(1);
        mount.spec.node = "rabbit-2".into();
        assert_eq!(points_for(mount).unwrap().len(), 3);
        let mut mount = samples::client_mount(1);
        mount.metadata.namespace = Some("rabbit-2".into());
        assert_eq!(points_for(mount).unwrap().len(), 2);
    }
}

//! Chooses a management target for each file system whose profile names a pool. A pool is a set of persistent
//! management targets, its members.

use std::sync::Arc;

use api::{
    NnfLustreMgt, PersistentStorageInstance, ResourceError,
    persistent_storage_instance::{PersistentStorageState, PersistentStorageStatusState},
};
use controller::ObjectKey;
use kube::ResourceExt;

use crate::{
    change::Change,
    names::{STANDALONE_MGT, fs_name_holder},
    objects::view::Group,
    plan::{checks, storage::StorageMaker},
    progress::{Progress, transient_error},
};

/// Returns a member of a pool of persistent targets. The file system becomes a consumer of the member before it asks
/// the member for a name, so that the member cannot be destroyed meanwhile.
pub(super) fn use_member(
    maker: &StorageMaker<'_>,
    pool: &str,
) -> Result<Arc<NnfLustreMgt>, Progress> {
    let used = maker.group().pools.iter().next();
    let (at, member) = match used {
        Some((at, member)) => (at.clone(), member.clone()),
        None => choose_member(maker, pool).map_err(Progress::failed)?,
    };
    if used.is_none() {
        let mut after = PersistentStorageInstance::clone(&member);
        after.spec.consumer_references.push(fs_name_holder(maker.servers));
        return Err(Progress::default().with(Change::patch(&*member, &after)));
    }
    let mgt = maker.view.site.mgts.of_owner(&at).next();
    mgt.cloned().ok_or_else(|| {
        Progress::failed(transient_error(format!(
            "persistent storage {} of pool {pool} has no NnfLustreMGT yet: read the status of the workflow that creates it, whose Setup has not ended",
            at.1
        )))
    })
}

/// Chooses the usable member that has given the fewest names; chooses a degraded member only if all
/// usable members are degraded.
fn choose_member(
    maker: &StorageMaker<'_>,
    pool: &str,
) -> Result<(ObjectKey, Arc<PersistentStorageInstance>), ResourceError> {
    let site = maker.view.site;
    let members = site.persistent.iter().filter(|(_, instance)| {
        instance.labels().get(STANDALONE_MGT).is_some_and(|label| label == pool)
    });
    let members: Vec<_> = members.collect();
    if members.is_empty() {
        return Err(transient_error(format!(
            "no persistent storage is in the pool {pool} of management targets (lustreStorage.mgtOptions.externalMgs of the profile): ask the administrator to create one with create_persistent and a profile whose standaloneMgtPoolName is {pool}"
        )));
    }
    let mut unusable = String::new();
    let mut usable = Vec::new();
    for (at, instance) in members {
        match is_usable(maker, at, instance) {
            Ok((is_degraded, name_count)) => usable.push((is_degraded, name_count, at, instance)),
            Err(reason) => unusable = format!("{}: {reason}", at.1),
        }
    }
    let best = usable
        .into_iter()
        .min_by_key(|(is_degraded, name_count, at, _)| (*is_degraded, *name_count, (*at).clone()));
    best.map(|(_, _, at, instance)| (at.clone(), instance.clone())).ok_or_else(|| {
        transient_error(format!(
            "no management target of the pool {pool} can be used now; for example {unusable}"
        ))
    })
}

/// Returns whether a member is degraded and how many names it gave.
///
/// # Errors
/// The reason why the member cannot be used.
fn is_usable(
    maker: &StorageMaker<'_>,
    at: &ObjectKey,
    instance: &PersistentStorageInstance,
) -> Result<(bool, usize), String> {
    let is_going = instance.metadata.deletion_timestamp.is_some()
        || instance.spec.state == PersistentStorageState::Destroying;
    if is_going {
        return Err("it is being destroyed".to_owned());
    }
    let state = instance.status.as_ref().map(|status| &status.state);
    let is_degraded = match state {
        Some(PersistentStorageStatusState::Active) => false,
        Some(PersistentStorageStatusState::Degraded) => true,
        other => {
            let reported = other.map_or("not known", PersistentStorageStatusState::as_str);
            return Err(format!("its state is {reported}"));
        }
    };
    let site = maker.view.site;
    let mgt = site.mgts.of_owner(at).next().ok_or("it has no NnfLustreMGT")?;
    let rabbit = mgt.namespace().unwrap_or_default();
    let storage = site.storages.get(&rabbit).ok_or_else(|| format!("{rabbit} has no Storage"))?;
    checks::serves(&rabbit, storage).map_err(|error| error.debug_message)?;
    Ok((is_degraded, mgt.spec.claim_list.len()))
}

/// Removes the file system from the consumers of the persistent management targets that it uses.
pub(super) fn release(group: &Group) -> Vec<Change> {
    let Some(servers) = &group.servers else { return Vec::new() };
    let holder = fs_name_holder(servers);
    let without = |instance: &Arc<PersistentStorageInstance>| {
        let mut after = PersistentStorageInstance::clone(instance);
        after.spec.consumer_references.retain(|other| *other != holder);
        Change::patch(&**instance, &after)
    };
    group.pools.values().filter_map(without).collect()
}

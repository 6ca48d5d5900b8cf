//! Pools of persistent management targets, of which a file system uses one.

use std::sync::Arc;

use api::{
    NnfLustreMgt, PersistentStorageInstance, ResourceError,
    persistent_storage_instance::{PersistentStorageState, PersistentStorageStatusState},
};
use controller::ObjectKey;
use kube::ResourceExt;

use crate::{
    change::Change,
    names::{STANDALONE_MGT, claim},
    plan::{checks, setup::Maker},
    progress::{Progress, transient_error},
    view::Group,
};

/// A member of a pool of persistent targets. It is held before it is asked for a name, so that nobody destroys it meanwhile.
pub(super) fn member(maker: &Maker<'_>, pool: &str) -> Result<Arc<NnfLustreMgt>, Progress> {
    let held = maker.group().pools.iter().next();
    let (at, member) = match held {
        Some((at, member)) => (at.clone(), member.clone()),
        None => chosen(maker, pool).map_err(Progress::failed)?,
    };
    if held.is_none() {
        let mut after = PersistentStorageInstance::clone(&member);
        after.spec.consumer_references.push(claim(maker.servers));
        return Err(Progress::default().with(Change::patch(&*member, &after)));
    }
    let mgt = maker.view.site.mgts.of_owner(&at).next();
    mgt.cloned().ok_or_else(|| {
        Progress::failed(transient_error(format!(
            "persistent storage {} of pool {pool} has no NnfLustreMGT: see why its Setup did not end",
            at.1
        )))
    })
}

/// The member with the fewest names of those that serve, a degraded one only if there is no other.
fn chosen(
    maker: &Maker<'_>,
    pool: &str,
) -> Result<(ObjectKey, Arc<PersistentStorageInstance>), ResourceError> {
    let site = maker.view.site;
    let members = site
        .persistent
        .iter()
        .filter(|(_, one)| one.labels().get(STANDALONE_MGT).is_some_and(|label| label == pool));
    let members: Vec<_> = members.collect();
    if members.is_empty() {
        return Err(transient_error(format!(
            "no persistent storage is in the pool {pool} of management targets (lustreStorage.mgtOptions.externalMgs of the profile): the administrator creates one with create_persistent and a profile whose standaloneMgtPoolName is {pool}"
        )));
    }
    let mut why = String::new();
    let mut usable = Vec::new();
    for (at, one) in members {
        match is_usable(maker, at, one) {
            Ok((is_degraded, claims)) => usable.push((is_degraded, claims, at, one)),
            Err(reason) => why = format!("{}: {reason}", at.1),
        }
    }
    let best = usable
        .into_iter()
        .min_by_key(|(is_degraded, claims, at, _)| (*is_degraded, *claims, (*at).clone()));
    best.map(|(_, _, at, one)| (at.clone(), one.clone())).ok_or_else(|| {
        transient_error(format!(
            "no management target of the pool {pool} can be used now, such as {why}"
        ))
    })
}

/// Whether it is degraded, and how many names it gave; or why it cannot be used.
fn is_usable(
    maker: &Maker<'_>,
    at: &ObjectKey,
    one: &PersistentStorageInstance,
) -> Result<(bool, usize), String> {
    let is_going = one.metadata.deletion_timestamp.is_some()
        || one.spec.state == PersistentStorageState::Destroying;
    if is_going {
        return Err("it is being destroyed".to_owned());
    }
    let state = one.status.as_ref().map(|status| &status.state);
    let is_degraded = match state {
        Some(PersistentStorageStatusState::Active) => false,
        Some(PersistentStorageStatusState::Degraded) => true,
        other => {
            let how = other.map_or("not known", PersistentStorageStatusState::as_str);
            return Err(format!("its state is {how}"));
        }
    };
    let site = maker.view.site;
    let mgt = site.mgts.of_owner(at).next().ok_or("it has no NnfLustreMGT")?;
    let rabbit = mgt.namespace().unwrap_or_default();
    let storage = site.storages.get(&rabbit).ok_or_else(|| format!("{rabbit} has no Storage"))?;
    checks::serves(&rabbit, storage).map_err(|error| error.debug_message)?;
    Ok((is_degraded, mgt.spec.claim_list.len()))
}

/// Withdraws the use of persistent targets.
pub(super) fn release(group: &Group) -> Vec<Change> {
    let Some(servers) = &group.servers else { return Vec::new() };
    let claim = claim(servers);
    let without = |one: &Arc<PersistentStorageInstance>| {
        let mut after = PersistentStorageInstance::clone(one);
        after.spec.consumer_references.retain(|other| *other != claim);
        Change::patch(&**one, &after)
    };
    group.pools.values().filter_map(without).collect()
}

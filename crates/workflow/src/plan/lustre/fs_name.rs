//! Requests a file system's name from a management target, and gives the name back if another file system has it.

use api::NnfLustreMgt;
use k8s_openapi::api::core::v1::ObjectReference;

use super::mgt::made_with;
use crate::{
    change::Change,
    names::fs_name_holder,
    objects::{
        fs_names::{belongs_to_another, pass_over, taken_elsewhere},
        mgts::{EXTERNAL_NAMESPACE, mgt_key},
    },
    plan::storage::{StorageMaker, errors::name_node},
    progress::{Progress, internal_error},
};

/// Returns the name that a management target gave.
///
/// # Errors
/// The progress so far, if there is no name yet.
pub(super) fn given_name(maker: &StorageMaker<'_>, mgt: &NnfLustreMgt) -> Result<String, Progress> {
    let holder = fs_name_holder(maker.servers);
    let (node, name) = mgt_key(mgt);
    let status = mgt.status.as_ref();
    let mut entries = status.into_iter().flat_map(|status| &status.claim_list);
    let name_given = entries.find(|entry| *entry.reference == holder).map(|entry| &entry.fs_name);
    let is_made = made_with(maker.group()).is_some();
    if !mgt.spec.claim_list.contains(&holder) {
        return Err(match name_given {
            Some(name_given) if !is_made => {
                Progress::wait(format!("NnfLustreMGT {node}/{name} to erase the name {name_given}"))
                    .awaiting([&*node])
            }
            _ => ask_for_name(maker, mgt, holder),
        });
    }
    let Some(name_given) = name_given else {
        let error = status.and_then(|status| status.error.as_ref());
        return Err(error.map_or_else(
            || {
                Progress::wait(format!("a file system name from NnfLustreMGT {node}/{name}"))
                    .awaiting([&*node])
            },
            |error| Progress::failed(name_node(&node, error)),
        ));
    };
    if !is_made && belongs_to_another(maker.view.site, &holder, name_given) {
        return Err(give_back(mgt, &holder, name_given));
    }
    Ok(name_given.clone())
}

/// Asks a management target for a name that no other file system of the whole system has.
fn ask_for_name(maker: &StorageMaker<'_>, mgt: &NnfLustreMgt, holder: ObjectReference) -> Progress {
    let at = mgt_key(mgt);
    if mgt.metadata.deletion_timestamp.is_some() {
        let why =
            format!("NnfLustreMGT {}/{} is being deleted: tear the workflow down", at.0, at.1);
        return Progress::failed(internal_error(why));
    }
    let mut after = mgt.clone();
    after.spec.claim_list.push(holder);
    // For management targets outside of the rabbits the engine itself gives out the names, and avoids taken names.
    if at.0 != EXTERNAL_NAMESPACE {
        pass_over(&mut after, &taken_elsewhere(maker.view.site, &at));
    }
    Progress::default().with(Change::patch(mgt, &after))
}

/// Gives back a name that another file system has. This happens if the management target chose a name that
/// the engine could not foresee.
fn give_back(mgt: &NnfLustreMgt, holder: &ObjectReference, name: &str) -> Progress {
    let mut after = mgt.clone();
    after.spec.claim_list.retain(|other| other != holder);
    after.spec.fs_name_black_list.push(name.to_owned());
    Progress::default().with(Change::patch(mgt, &after))
}

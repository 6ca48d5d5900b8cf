//! A file system's name: asked for on a management target, and given back where another file system has it.

use api::NnfLustreMgt;
use k8s_openapi::api::core::v1::ObjectReference;

use super::mgt::made_with;
use crate::{
    change::Change,
    fs_names::{is_of_another, pass_over, taken_elsewhere},
    mgts::{EXTERNAL_NAMESPACE, place_of},
    names::claim,
    plan::setup::{Maker, of_node},
    progress::{Progress, internal_error},
};

/// The name that a management target gave.
///
/// # Errors
/// How far that is.
pub(super) fn given_name(maker: &Maker<'_>, mgt: &NnfLustreMgt) -> Result<String, Progress> {
    let claim = claim(maker.servers);
    let (node, name) = place_of(mgt);
    let status = mgt.status.as_ref();
    let mut given = status.into_iter().flat_map(|status| &status.claim_list);
    let given = given.find(|given| *given.reference == claim).map(|given| &given.fs_name);
    let is_made = made_with(maker.group()).is_some();
    if !mgt.spec.claim_list.contains(&claim) {
        return Err(match given {
            Some(given) if !is_made => {
                Progress::wait(format!("NnfLustreMGT {node}/{name} to erase the name {given}"))
            }
            _ => ask_for_name(maker, mgt, claim),
        });
    }
    let Some(given) = given else {
        let error = status.and_then(|status| status.error.as_ref());
        return Err(error.map_or_else(
            || Progress::wait(format!("a file system name from NnfLustreMGT {node}/{name}")),
            |error| Progress::failed(of_node(&node, error)),
        ));
    };
    if !is_made && is_of_another(maker.view.site, &claim, given) {
        return Err(give_back(mgt, &claim, given));
    }
    Ok(given.clone())
}

/// Asks a management target for a name that no other file system of the system has.
fn ask_for_name(maker: &Maker<'_>, mgt: &NnfLustreMgt, claim: ObjectReference) -> Progress {
    let at = place_of(mgt);
    if mgt.metadata.deletion_timestamp.is_some() {
        let why =
            format!("NnfLustreMGT {}/{} is being deleted: tear the workflow down", at.0, at.1);
        return Progress::failed(internal_error(why));
    }
    let mut after = mgt.clone();
    after.spec.claim_list.push(claim);
    // The engine itself gives out the names of the site's own targets.
    if at.0 != EXTERNAL_NAMESPACE {
        pass_over(&mut after, &taken_elsewhere(maker.view.site, &at));
    }
    Progress::default().with(Change::patch(mgt, &after))
}

/// Gives back a name that another file system has: a management target counted on while the engine could not foresee where.
fn give_back(mgt: &NnfLustreMgt, claim: &ObjectReference, name: &str) -> Progress {
    let mut after = mgt.clone();
    after.spec.claim_list.retain(|other| other != claim);
    after.spec.fs_name_black_list.push(name.to_owned());
    Progress::default().with(Change::patch(mgt, &after))
}

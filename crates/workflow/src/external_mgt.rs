//! Lustre management targets that no rabbit holds: the engine gives out the file system names, as a rabbit's agent does for
//! its own. No program of ours runs on their hosts, so the engine erases no name there and runs no command: it counts on, and gives
//! out no name that another file system of the system has. Pure.

use std::collections::BTreeSet;

use api::{
    NnfLustreMgt, NnfLustreMgtStatus, ResourceError, fs_name::FsName,
    nnf_lustre_mgt::NnfLustreMgtStatusClaim,
};
use controller::ObjectKey;

use crate::{change::Change, fs_names::taken_elsewhere, progress::transient_error, site::Site};

/// What is to be changed of a management target's status.
#[must_use]
pub fn plan(site: &Site, at: &ObjectKey) -> Option<Change> {
    let mgt = site.mgts.get(at)?;
    if mgt.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let mut after = NnfLustreMgt::clone(mgt);
    after.status = Some(status(mgt, &taken_elsewhere(site, at)));
    Change::status(&**mgt, &after)
}

fn status(mgt: &NnfLustreMgt, elsewhere: &BTreeSet<String>) -> NnfLustreMgtStatus {
    let mut status = mgt.status.clone().unwrap_or_default();
    // The record of a name that nobody has any more; the count never comes back to it.
    status.claim_list.retain(|given| {
        given
            .reference
            .non_default()
            .is_none_or(|reference| mgt.spec.claim_list.contains(reference))
    });
    status.error = give_out(mgt, elsewhere, &mut status).err();
    status
}

/// Only a name that is given out depends on what others have: where to count on is this target's own.
fn give_out(
    mgt: &NnfLustreMgt,
    elsewhere: &BTreeSet<String>,
    status: &mut NnfLustreMgtStatus,
) -> Result<(), ResourceError> {
    let mut own: BTreeSet<String> = mgt.spec.fs_name_black_list.iter().cloned().collect();
    own.extend(status.claim_list.iter().map(|claim| claim.fs_name.clone()));
    let mut next = first(mgt, status)?.first_free(&own);
    for claim in &mgt.spec.claim_list {
        if status.claim_list.iter().any(|given| *given.reference == *claim) {
            continue;
        }
        let name = next.first_free(&own.union(elsewhere).cloned().collect());
        own.insert(name.to_string());
        let (reference, fs_name) = (claim.clone().into(), name.to_string());
        status.claim_list.push(NnfLustreMgtStatusClaim { reference, fs_name });
        next = name.next().first_free(&own);
    }
    status.fs_name_next = next.to_string();
    Ok(())
}

fn first(mgt: &NnfLustreMgt, status: &NnfLustreMgtStatus) -> Result<FsName, ResourceError> {
    if mgt.spec.fs_name_start_reference.non_default().is_some() {
        return Err(transient_error(
            "spec.fsNameStartReference: the engine keeps no ConfigMap of a management target outside of the rabbits: set spec.fsNameStart instead, and leave the reference out",
        ));
    }
    let (field, value) = match status.fs_name_next.as_str() {
        "" => ("spec.fsNameStart", mgt.spec.fs_name_start.as_str()),
        next => ("status.fsNameNext", next),
    };
    value.parse().map_err(|_| {
        transient_error(format!(
            "{field} is {value:?}: use eight letters from a to z, such as aaaaaaaa"
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn reference(name: &str) -> Value {
        json!({"kind": "Servers", "name": name, "namespace": "default"})
    }

    fn mgt(claims: &[&str], status: &Value) -> NnfLustreMgt {
        let claims: Vec<Value> = claims.iter().map(|name| reference(name)).collect();
        from_value(json!({
            "metadata": {"name": "m", "namespace": "nnf-system"},
            "spec": {"addresses": ["10.0.0.1@tcp"], "fsNameStart": "zzzzzzzz", "fsNameBlackList": ["aaaaaaaa"],
                "claimList": claims},
            "status": status,
        }))
        .unwrap()
    }

    fn alone(mgt: &NnfLustreMgt) -> NnfLustreMgtStatus {
        status(mgt, &BTreeSet::new())
    }

    fn names(status: &NnfLustreMgtStatus) -> Vec<&str> {
        status.claim_list.iter().map(|claim| claim.fs_name.as_str()).collect()
    }

    #[test]
    fn every_claim_has_a_name_of_its_own_and_none_is_given_out_again() {
        let first = alone(&mgt(&["a", "b"], &Value::Null));
        assert_eq!(
            (names(&first), &*first.fs_name_next),
            (vec!["zzzzzzzz", "aaaaaaab"], "aaaaaaac")
        );
        let second = alone(&mgt(&["b", "c"], &serde_json::to_value(&first).unwrap()));
        assert_eq!(
            (names(&second), &*second.fs_name_next),
            (vec!["aaaaaaab", "aaaaaaac"], "aaaaaaad")
        );
        let same = alone(&mgt(&["b", "c"], &serde_json::to_value(&second).unwrap()));
        assert_eq!(same, second);
    }

    #[test]
    fn a_name_of_another_management_target_is_passed_over() {
        let taken = ["zzzzzzzz", "aaaaaaab"].map(str::to_owned).into();
        let told = status(&mgt(&["a"], &Value::Null), &taken);
        assert_eq!((names(&told), &*told.fs_name_next), (vec!["aaaaaaac"], "aaaaaaad"));
    }

    #[test]
    fn what_cannot_be_counted_from_is_told_with_its_field() {
        let mut object = mgt(&["a"], &Value::Null);
        object.spec.fs_name_start = "Scratch".to_owned();
        let error = alone(&object).error.unwrap().debug_message;
        assert!(error.starts_with("spec.fsNameStart is \"Scratch\""), "{error}");
        object.spec.fs_name_start_reference = k8s_openapi::api::core::v1::ObjectReference {
            name: Some("names".to_owned()),
            ..Default::default()
        }
        .into();
        let told = alone(&object);
        assert!(told.error.unwrap().debug_message.starts_with("spec.fsNameStartReference"));
        assert!(told.claim_list.is_empty());
    }
}

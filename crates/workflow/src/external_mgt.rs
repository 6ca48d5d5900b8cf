//! Lustre management targets outside of the rabbits: the engine gives out their file system names, as a rabbit's
//! agent does for a target on the rabbit. No program of Warren runs on the hosts of these targets, so the engine
//! erases no name and runs no command there. Each name is the next one in alphabetical order that no other file
//! system of the system has. The holder of a name is the Servers of the file system, which requests the name in
//! `spec.claimList`. Pure.

use std::collections::BTreeSet;

use api::{
    NnfLustreMgt, NnfLustreMgtStatus, ResourceError, fs_name::FsName,
    nnf_lustre_mgt::NnfLustreMgtStatusClaim,
};
use controller::ObjectKey;

use crate::{
    change::Change,
    objects::{fs_names::taken_elsewhere, site::Site},
    progress::transient_error,
};

/// Plans the status of a management target outside of the rabbits.
#[must_use]
pub fn plan(site: &Site, at: &ObjectKey) -> Option<Change> {
    let mgt = site.mgts.get(at)?;
    if mgt.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let mut after = NnfLustreMgt::clone(mgt);
    after.status = Some(next_status(mgt, &taken_elsewhere(site, at)));
    Change::status(&**mgt, &after)
}

fn next_status(mgt: &NnfLustreMgt, elsewhere: &BTreeSet<String>) -> NnfLustreMgtStatus {
    let mut status = mgt.status.clone().unwrap_or_default();
    // Drop the names of holders that have withdrawn their request. The counter for new names only goes up, so the
    // dropped names are not given out again.
    status.claim_list.retain(|entry| {
        entry
            .reference
            .non_default()
            .is_none_or(|reference| mgt.spec.claim_list.contains(reference))
    });
    status.error = give_out(mgt, elsewhere, &mut status).err();
    status
}

/// Gives a name to each holder that has none. Skips names that other management targets have given out, but computes
/// `status.fsNameNext` from this target's own names only.
fn give_out(
    mgt: &NnfLustreMgt,
    elsewhere: &BTreeSet<String>,
    status: &mut NnfLustreMgtStatus,
) -> Result<(), ResourceError> {
    let mut own: BTreeSet<String> = mgt.spec.fs_name_black_list.iter().cloned().collect();
    own.extend(status.claim_list.iter().map(|entry| entry.fs_name.clone()));
    let mut next = next_name(mgt, status)?.first_free(&own);
    for holder in &mgt.spec.claim_list {
        if status.claim_list.iter().any(|entry| *entry.reference == *holder) {
            continue;
        }
        let name = next.first_free(&own.union(elsewhere).cloned().collect());
        own.insert(name.to_string());
        let (reference, fs_name) = (holder.clone().into(), name.to_string());
        status.claim_list.push(NnfLustreMgtStatusClaim { reference, fs_name });
        next = name.next().first_free(&own);
    }
    status.fs_name_next = next.to_string();
    Ok(())
}

fn next_name(mgt: &NnfLustreMgt, status: &NnfLustreMgtStatus) -> Result<FsName, ResourceError> {
    if mgt.spec.fs_name_start_reference.non_default().is_some() {
        return Err(transient_error(
            "spec.fsNameStartReference: the engine reads no ConfigMap for a management target outside of the rabbits: remove the reference, and set spec.fsNameStart",
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

    fn status_of(mgt: &NnfLustreMgt) -> NnfLustreMgtStatus {
        next_status(mgt, &BTreeSet::new())
    }

    fn names(status: &NnfLustreMgtStatus) -> Vec<&str> {
        status.claim_list.iter().map(|entry| entry.fs_name.as_str()).collect()
    }

    #[test]
    fn every_holder_gets_its_own_name_and_no_name_is_given_out_twice() {
        let first = status_of(&mgt(&["a", "b"], &Value::Null));
        assert_eq!(
            (names(&first), &*first.fs_name_next),
            (vec!["zzzzzzzz", "aaaaaaab"], "aaaaaaac")
        );
        let second = status_of(&mgt(&["b", "c"], &serde_json::to_value(&first).unwrap()));
        assert_eq!(
            (names(&second), &*second.fs_name_next),
            (vec!["aaaaaaab", "aaaaaaac"], "aaaaaaad")
        );
        let same = status_of(&mgt(&["b", "c"], &serde_json::to_value(&second).unwrap()));
        assert_eq!(same, second);
    }

    #[test]
    fn names_of_other_management_targets_are_skipped() {
        let taken = ["zzzzzzzz", "aaaaaaab"].map(str::to_owned).into();
        let status = next_status(&mgt(&["a"], &Value::Null), &taken);
        assert_eq!((names(&status), &*status.fs_name_next), (vec!["aaaaaaac"], "aaaaaaad"));
    }

    #[test]
    fn an_invalid_start_name_is_reported_with_its_field() {
        let mut object = mgt(&["a"], &Value::Null);
        object.spec.fs_name_start = "Scratch".to_owned();
        let error = status_of(&object).error.unwrap().debug_message;
        assert!(error.starts_with("spec.fsNameStart is \"Scratch\""), "{error}");
        object.spec.fs_name_start_reference = k8s_openapi::api::core::v1::ObjectReference {
            name: Some("names".to_owned()),
            ..Default::default()
        }
        .into();
        let status = status_of(&object);
        assert!(status.error.unwrap().debug_message.starts_with("spec.fsNameStartReference"));
        assert!(status.claim_list.is_empty());
    }
}

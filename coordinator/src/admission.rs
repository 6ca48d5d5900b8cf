//! Completes new objects, and decides which changes of objects the coordinator refuses, before the
//! API stores them. Pure.
//!
//! The embedded API calls [`complete`] and [`admit`] directly; a cluster's API server
//! asks over HTTPS ([`crate::webhook`]).

use api::SystemConfiguration;
use containers::claim::rules::{self, Part};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use workflow::Rules;

use crate::roster::mistakes;

/// Kinds of profiles that may be pinned. A pinned profile is a copy that belongs to one Workflow or persistent storage.
const PROFILES: [&str; 3] =
    ["nnfstorageprofiles", "nnfcontainerprofiles", "nnfdatamovementprofiles"];

/// A change of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) group: &'a str,
    /// The plural, such as `clientmounts`.
    pub(crate) resource: &'a str,
    pub(crate) subresource: Option<&'a str>,
    /// The client that makes the change: on a cluster, the uid of the pod that the client's token is bound to; with the
    /// embedded API, the name of the user. A claim on a ContainerRun identifies the coordinator that works on the run
    /// by the same uid or user name.
    pub(crate) caller: Option<&'a str>,
    /// The stored object; `None` when the change creates it.
    pub(crate) old: Option<&'a Value>,
    pub(crate) new: &'a Value,
}

/// Refuses to delete a pinned profile that has an owner (a Workflow or a persistent storage): the owner's storage
/// cannot be removed without the profile. The garbage collector deletes the profile after its owner is gone; this
/// function is not called for deletions by the collector.
pub(crate) fn admit_deletion(group: &str, resource: &str, old: &Value) -> Result<(), Refusal> {
    let is_profile = group == "nnf.cray.hpe.com" && PROFILES.contains(&resource);
    let owner = &old["metadata"]["ownerReferences"][0];
    if !is_profile || old["data"]["pinned"] != true || owner.is_null() {
        return Ok(());
    }
    let text = |field: &str| owner[field].as_str().unwrap_or_default();
    Err(Refusal::Forbidden(format!(
        "a pinned profile belongs to its {0} {1}, which needs the profile until its end: delete the {0} {1} instead",
        text("kind"),
        text("name")
    )))
}

/// The reason for refusing a change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The object is invalid.
    Invalid(String),
    /// The change is not allowed. Workload managers recognise this refusal by its HTTP code, and show the text to the
    /// user.
    Forbidden(String),
}

impl Refusal {
    /// Returns the HTTP code and the `reason` of a Kubernetes Status.
    pub(crate) fn code(&self) -> (u16, &'static str) {
        match self {
            Self::Invalid(_) => (422, "Invalid"),
            Self::Forbidden(_) => (403, "Forbidden"),
        }
    }

    /// Returns the text for the user who made the change.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Invalid(text) | Self::Forbidden(text) => text,
        }
    }
}

/// The site's rules for `#DW` directives of Workflows; `None` where another engine drives Workflows.
pub(crate) type Workflows = Option<Rules>;

/// Returns the object to store instead of `change.new`, for kinds whose defaults a mutating webhook fills in on
/// a cluster; `None` for other kinds.
pub(crate) fn complete(change: Change<'_>, workflows: &Workflows, now: Timestamp) -> Option<Value> {
    let rules = workflows.as_ref()?;
    let kind = (change.group, change.resource, change.subresource.filter(|name| !name.is_empty()));
    match (kind, change.old) {
        (("dataworkflowservices.github.io", "workflows", None), None) => {
            workflow::complete(change.new, rules.get().as_deref(), now)
        }
        _ => None,
    }
}

/// Admits a change, or refuses it with the mistake and the remedy.
///
/// Does not refuse a change because of a mistake that the stored object already has: otherwise the object's finalizers
/// could not be removed.
pub(crate) fn admit(change: Change<'_>, workflows: &Workflows) -> Result<(), Refusal> {
    let kind = (change.group, change.resource, change.subresource.filter(|name| !name.is_empty()));
    match kind {
        ("warren.nnf.cray.hpe.com", "containerruns", part) => {
            let part = part.map_or(Part::Main, |_| Part::Status(change.caller));
            rules::admit(change.old, change.new, part).map_err(Refusal::Invalid)
        }
        ("dataworkflowservices.github.io", "systemconfigurations", None) => {
            system_configuration(change).map_err(Refusal::Invalid)
        }
        ("dataworkflowservices.github.io", "workflows", None) => {
            let Some(rules) = workflows else { return Ok(()) };
            let rules = rules.get();
            workflow::admit(change.old, change.new, rules.as_deref()).map_err(Refusal::Forbidden)
        }
        ("nnf.cray.hpe.com", resource, None)
            if PROFILES.contains(&resource) && workflows.is_some() =>
        {
            pinned_profile(change).map_err(Refusal::Forbidden)
        }
        _ => Ok(()),
    }
}

/// Refuses changes of a pinned profile: a job's storage was made from the profile, and root runs the profile's command
/// lines until the storage is gone.
fn pinned_profile(change: Change<'_>) -> Result<(), String> {
    let Some(old) = change.old else { return Ok(()) };
    if old["data"]["pinned"] == true && old["data"] != change.new["data"] {
        return Err("data of a pinned profile may not change, because a job's storage was made from it: for later jobs, change the profile that their directives name".to_owned());
    }
    Ok(())
}

fn system_configuration(change: Change<'_>) -> Result<(), String> {
    let mistakes_of = |object: &Value| match SystemConfiguration::deserialize(object) {
        Ok(configuration) => mistakes(&configuration),
        Err(error) => vec![format!("the SystemConfiguration cannot be read: {error}")],
    };
    let known = change.old.map(mistakes_of).unwrap_or_default();
    let mut new = mistakes_of(change.new);
    new.retain(|mistake| !known.contains(mistake));
    match new.as_slice() {
        [] => Ok(()),
        [mistake] => Err(mistake.clone()),
        [first, others @ ..] => {
            Err(format!("{first} (other mistakes in the object: {})", others.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn configuration(compute: &str) -> Value {
        json!({
            "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "SystemConfiguration",
            "metadata": {"name": "default", "namespace": "default"},
            "spec": {"storageNodes": [
                {"type": "Rabbit", "name": "rabbit-1", "computesAccess": [{"name": compute, "index": 0}]}
            ]}
        })
    }

    fn change<'a>(old: Option<&'a Value>, new: &'a Value) -> Change<'a> {
        let (group, resource) = ("dataworkflowservices.github.io", "systemconfigurations");
        Change { group, resource, subresource: None, caller: None, old, new }
    }

    #[test]
    fn an_invalid_host_name_is_refused_with_its_field() {
        let (good, bad) = (configuration("compute-1"), configuration("compute 1"));
        assert_eq!(admit(change(None, &good), &None), Ok(()));
        let why = admit(change(None, &bad), &None).unwrap_err();
        assert!(why.text().contains("spec.storageNodes[0].computesAccess[0].name"), "{why:?}");
        assert!(admit(change(Some(&good), &bad), &None).is_err());
        assert_eq!(
            admit(change(Some(&bad), &bad), &None),
            Ok(()),
            "the stored object has the same mistake"
        );
        assert_eq!(admit(change(Some(&bad), &good), &None), Ok(()));
    }

    #[test]
    fn host_names_are_not_checked_in_a_status_or_in_kinds_other_than_the_system_configuration() {
        let bad = configuration("compute 1");
        let status = Change { subresource: Some("status"), ..change(None, &bad) };
        assert_eq!(admit(status, &None), Ok(()));
        let other = Change { resource: "storages", ..change(None, &bad) };
        assert_eq!(admit(other, &None), Ok(()));
        let why = admit(change(None, &json!({"spec": 3})), &None).unwrap_err();
        assert!(why.text().contains("cannot be read"), "{why:?}");
    }

    #[test]
    fn a_pinned_profile_cannot_be_changed() {
        let profile = |pinned: bool, mkfs: &str| {
            let commands = json!({"rabbitCommands": {"mkfs": mkfs}});
            json!({
                "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfStorageProfile",
                "metadata": {"name": "w-0", "namespace": "default"},
                "data": {"pinned": pinned, "xfsStorage": {"fileSystemCommands": commands}},
            })
        };
        let admitted = |old: &Value, new: &Value| {
            let (group, resource) = ("nnf.cray.hpe.com", "nnfstorageprofiles");
            let change = Change { group, resource, ..change(Some(old), new) };
            admit(change, &Some(Rules::default()))
        };
        let pinned = profile(true, "$DEVICE");
        let why = admitted(&pinned, &profile(true, "$DEVICE; reboot")).unwrap_err();
        assert!(why.text().contains("pinned profile may not change"), "{why:?}");
        assert!(
            admitted(&pinned, &profile(false, "$DEVICE")).is_err(),
            "a pinned profile cannot become a template again"
        );
        let mut labelled = pinned.clone();
        labelled["metadata"]["labels"] = json!({"a": "b"});
        assert_eq!(admitted(&pinned, &labelled), Ok(()));
        let template = profile(false, "$DEVICE");
        assert_eq!(admitted(&template, &profile(false, "-f $DEVICE")), Ok(()));
    }

    #[test]
    fn the_deletion_of_a_pinned_profile_with_an_owner_is_refused() {
        let profile = |pinned: bool, owners: Value| json!({"metadata": {"ownerReferences": owners}, "data": {"pinned": pinned}});
        let deleted =
            |resource: &str, old: Value| admit_deletion("nnf.cray.hpe.com", resource, &old);
        let owner = json!([{"kind": "Workflow", "name": "w"}]);
        for resource in PROFILES {
            let why = deleted(resource, profile(true, owner.clone())).unwrap_err();
            assert!(why.text().contains("belongs to its Workflow w"), "{why:?}");
            assert_eq!(deleted(resource, profile(false, owner.clone())), Ok(()));
            assert_eq!(
                deleted(resource, profile(true, Value::Null)),
                Ok(()),
                "a profile without an owner was pinned by an administrator"
            );
        }
        assert_eq!(deleted("storages", profile(true, owner)), Ok(()));
    }

    #[test]
    fn workflows_are_checked_only_where_the_engine_runs() {
        let skipping = json!({
            "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Workflow",
            "metadata": {"name": "w", "namespace": "default"},
            "spec": {"desiredState": "Setup", "wlmID": "w", "jobID": 1, "userID": 1, "groupID": 1, "dwDirectives": []},
        });
        let change = Change { resource: "workflows", ..change(None, &skipping) };
        assert_eq!(admit(change, &None), Ok(()));
        let why = admit(change, &Some(Rules::default())).unwrap_err();
        assert_eq!(why.code(), (403, "Forbidden"));
        assert!(why.text().contains("created in Proposal"), "{why:?}");
    }
}

//! What the coordinator refuses before the API stores it. Pure.
//!
//! The embedded API asks directly; a cluster's asks over HTTPS ([`crate::webhook`]).

use api::SystemConfiguration;
use serde::Deserialize;
use serde_json::Value;

use crate::roster::unfit;

/// A create or an update of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) group: &'a str,
    /// The plural, such as `clientmounts`.
    pub(crate) resource: &'a str,
    pub(crate) subresource: Option<&'a str>,
    /// As it is stored; none for one that is created.
    pub(crate) old: Option<&'a Value>,
    pub(crate) new: &'a Value,
}

/// Admits a change, or says what is wrong with it and how to put it right.
///
/// What was stored before is not refused again: whoever takes a finalizer off such an object must be able to.
///
/// # Errors
/// The refusal, for the person who made the change.
pub(crate) fn admit(change: Change<'_>) -> Result<(), String> {
    let kind = (change.group, change.resource, change.subresource.filter(|of| !of.is_empty()));
    match kind {
        ("dataworkflowservices.github.io", "systemconfigurations", None) => {
            system_configuration(change)
        }
        _ => Ok(()),
    }
}

fn system_configuration(change: Change<'_>) -> Result<(), String> {
    // What does not read as one is refused by its schema.
    let unfit_name =
        |object: &Value| SystemConfiguration::deserialize(object).ok().as_ref().and_then(unfit);
    match unfit_name(change.new) {
        Some(why) if change.old.and_then(unfit_name).as_ref() != Some(&why) => Err(why),
        Some(_) | None => Ok(()),
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
        Change { group, resource, subresource: None, old, new }
    }

    #[test]
    fn a_node_that_no_host_can_be_is_refused_with_its_field() {
        let (good, bad) = (configuration("compute-1"), configuration("compute 1"));
        assert_eq!(admit(change(None, &good)), Ok(()));
        let why = admit(change(None, &bad)).unwrap_err();
        assert!(why.contains("spec.storageNodes[0].computesAccess[0].name"), "{why}");
        assert!(admit(change(Some(&good), &bad)).is_err());
        assert_eq!(admit(change(Some(&bad), &bad)), Ok(()), "it was there before");
        assert_eq!(admit(change(Some(&bad), &good)), Ok(()));
    }

    #[test]
    fn nothing_else_is_judged() {
        let bad = configuration("compute 1");
        let status = Change { subresource: Some("status"), ..change(None, &bad) };
        assert_eq!(admit(status), Ok(()));
        assert_eq!(admit(Change { resource: "workflows", ..change(None, &bad) }), Ok(()));
        assert_eq!(admit(change(None, &json!({"spec": 3}))), Ok(()), "the schema refuses it");
    }
}

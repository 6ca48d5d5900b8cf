//! Judges whether an object fulfils a condition. Pure.

use api::{ClientMountStatus, names::finalizer};
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::Value;

use crate::args::Condition;

/// The verdict on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Met,
    /// The condition does not hold yet, for this reason.
    Pending(String),
    /// The condition cannot hold before something changes, for this reason.
    Fatal(String),
}

/// Judges an object that exists.
pub(super) fn judge(object: &DynamicObject, condition: Condition) -> Verdict {
    if condition == Condition::Deleted {
        return Verdict::Pending(holders(object));
    }
    if is_met(object, condition) {
        return Verdict::Met;
    }
    let error = object.data.pointer("/status/error");
    let Some(error) = error.filter(|error| error.is_object()) else {
        return Verdict::Pending(pending(object, condition));
    };
    let field = |name| error.get(name).and_then(Value::as_str).unwrap_or_default();
    // Shows the debug message to operators: the message for the job's owner leaves out faults that only an operator
    // can correct.
    let text =
        if field("debugMessage").is_empty() { field("userMessage") } else { field("debugMessage") };
    if field("severity") == "Fatal" {
        Verdict::Fatal(text.to_owned())
    } else {
        Verdict::Pending(format!("{}: {text}", field("severity")))
    }
}

fn is_met(object: &DynamicObject, condition: Condition) -> bool {
    let desired = text(object, "/spec/desiredState");
    match condition {
        Condition::Mounted => desired == "mounted" && mounts_are(object, "mounted"),
        Condition::Unmounted => desired == "unmounted" && mounts_are(object, "unmounted"),
        Condition::Ready if object.data.pointer("/spec/mounts").is_some() => {
            mounts_are(object, desired)
        }
        Condition::Ready => is_ready(object),
        Condition::Deleted => false,
    }
}

/// Returns whether all mounts of a ClientMount are in this state. The workflow engine also calls `has_reached`.
fn mounts_are(object: &DynamicObject, state: &str) -> bool {
    let count = object.data.pointer("/spec/mounts").and_then(Value::as_array).map_or(0, Vec::len);
    let status = object.data.get("status").map(ClientMountStatus::deserialize);
    status.is_some_and(|status| status.is_ok_and(|status| status.has_reached(&state.into(), count)))
}

/// Returns whether `status.ready` is true, the condition `Ready` holds, or `status.status` is `Ready`.
fn is_ready(object: &DynamicObject) -> bool {
    let status = object.data.get("status").unwrap_or(&Value::Null);
    let conditions = status.get("conditions").and_then(Value::as_array);
    let ready = |condition: &Value| {
        condition.get("type").and_then(Value::as_str) == Some("Ready")
            && condition.get("status").and_then(Value::as_str) == Some("True")
    };
    let is_marked_ready = status.get("ready") == Some(&Value::Bool(true))
        || status.get("status").and_then(Value::as_str) == Some("Ready")
        || conditions.is_some_and(|conditions| conditions.iter().any(ready));
    is_marked_ready && !has_error(object)
}

fn has_error(object: &DynamicObject) -> bool {
    object.data.pointer("/status/error").is_some_and(Value::is_object)
}

fn pending(object: &DynamicObject, condition: Condition) -> String {
    let desired = text(object, "/spec/desiredState");
    let unreachable = match condition {
        Condition::Mounted if desired != "mounted" => Some("mounted"),
        Condition::Unmounted if desired != "unmounted" => Some("unmounted"),
        Condition::Mounted | Condition::Unmounted | Condition::Ready | Condition::Deleted => None,
    };
    match unreachable {
        Some(state) => {
            format!("spec.desiredState is {desired:?}, so the object will not become {state}")
        }
        None if object.data.get("status").is_none() => "no agent has taken it up".to_owned(),
        None => "in progress".to_owned(),
    }
}

/// Describes the finalizers that keep a deleted object in the API.
fn holders(object: &DynamicObject) -> String {
    let finalizers = object.metadata.finalizers.clone().unwrap_or_default();
    if object.metadata.deletion_timestamp.is_none() {
        return "not deleted".to_owned();
    }
    if finalizers.is_empty() {
        return "being deleted".to_owned();
    }
    let node = object.metadata.namespace.as_deref().unwrap_or_default();
    let holders: Vec<String> = finalizers.iter().map(|finalizer| holder(finalizer, node)).collect();
    format!("held by {}", holders.join(", "))
}

/// Describes a finalizer, and the step after which the finalizer's agent removes it.
fn holder(finalizer: &str, node: &str) -> String {
    let who = match finalizer {
        finalizer::CLIENT_MOUNT => format!("until the agent of node {node} has unmounted"),
        finalizer::NNF_NODE_STORAGE => {
            format!("until the rabbit-agent of {node} has torn down the file systems")
        }
        finalizer::NNF_NODE_BLOCK_STORAGE => {
            format!("until the rabbit-agent of {node} has deleted the namespaces")
        }
        _ => return finalizer.to_owned(),
    };
    format!("{finalizer} ({who})")
}

fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "fixtures read better as literals")]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(spec: Value, status: Value) -> DynamicObject {
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec, "status": status}))
            .unwrap()
    }

    fn mounts(desired: &str, entries: Value) -> DynamicObject {
        let status = json!({"mounts": entries, "allReady": true});
        object(json!({"desiredState": desired, "mounts": [{}, {}]}), status)
    }

    #[test]
    fn every_mount_must_be_in_the_state_and_ready() {
        let entry = |state: &str, ready: bool| json!({"state": state, "ready": ready});
        for (desired, entries, condition, met) in [
            (
                "mounted",
                json!([entry("mounted", true), entry("mounted", true)]),
                Condition::Mounted,
                true,
            ),
            (
                "mounted",
                json!([entry("mounted", true), entry("mounted", false)]),
                Condition::Mounted,
                false,
            ),
            ("mounted", json!([entry("mounted", true)]), Condition::Mounted, false),
            (
                "unmounted",
                json!([entry("mounted", true), entry("mounted", true)]),
                Condition::Mounted,
                false,
            ),
            (
                "unmounted",
                json!([entry("mounted", true), entry("mounted", true)]),
                Condition::Unmounted,
                false,
            ),
            (
                "unmounted",
                json!([entry("unmounted", true), entry("unmounted", true)]),
                Condition::Unmounted,
                true,
            ),
            (
                "unmounted",
                json!([entry("unmounted", true), entry("unmounted", true)]),
                Condition::Ready,
                true,
            ),
        ] {
            let verdict = judge(&mounts(desired, entries.clone()), condition);
            assert_eq!(verdict == Verdict::Met, met, "{desired} {entries} {condition:?}");
        }
    }

    #[test]
    fn a_mount_with_an_error_does_not_count_as_unmounted() {
        let entry = json!({"state": "unmounted", "ready": true});
        let mut object = mounts("unmounted", json!([entry, entry]));
        object.data["status"]["allReady"] = json!(false);
        object.data["status"]["error"] = json!({"severity": "Minor", "debugMessage": "busy"});
        assert_eq!(
            judge(&object, Condition::Unmounted),
            Verdict::Pending("Minor: busy".to_owned())
        );
    }

    #[test]
    fn the_reason_to_wait_names_a_desired_state_that_contradicts_the_condition() {
        let Verdict::Pending(why) = judge(&mounts("unmounted", json!([])), Condition::Mounted)
        else {
            panic!()
        };
        assert!(why.contains("spec.desiredState is \"unmounted\""), "{why}");
    }

    #[test]
    fn errors_are_pending_or_fatal_by_severity() {
        let with = |severity: &str| {
            object(
                json!({"mounts": [{}]}),
                json!({"error": {"severity": severity, "userMessage": "u", "debugMessage": "d"}}),
            )
        };
        assert_eq!(
            judge(&with("Major"), Condition::Mounted),
            Verdict::Pending("Major: d".to_owned())
        );
        assert_eq!(judge(&with("Fatal"), Condition::Mounted), Verdict::Fatal("d".to_owned()));
    }

    #[test]
    fn each_form_of_readiness_is_recognised() {
        for status in [
            json!({"ready": true}),
            json!({"status": "Ready"}),
            json!({"conditions": [{"type": "Ready", "status": "True"}]}),
        ] {
            assert_eq!(
                judge(&object(json!({}), status.clone()), Condition::Ready),
                Verdict::Met,
                "{status}"
            );
        }
        assert_ne!(
            judge(&object(json!({}), json!({"ready": false})), Condition::Ready),
            Verdict::Met
        );
    }

    #[test]
    fn the_reason_to_wait_for_a_deletion_names_finalizer_and_agent() {
        let mut held = object(json!({}), json!({}));
        held.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-11-20T12:00:00Z")).unwrap();
        held.metadata.finalizers = Some(vec!["nnf.cray.hpe.com/nnf_clientmount".to_owned()]);
        held.metadata.namespace = Some("compute-1".to_owned());
        let Verdict::Pending(why) = judge(&held, Condition::Deleted) else { panic!() };
        assert_eq!(
            why,
            "held by nnf.cray.hpe.com/nnf_clientmount (until the agent of node compute-1 has unmounted)"
        );
    }
}

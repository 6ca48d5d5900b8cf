//! Checks the rules against the vectors that their CEL was checked with. `tests/tests/privilege/claims.rs` sends the
//! same vectors to a real API server.

use std::collections::BTreeSet;

use api::container_run::{ContainerRunClaim, ContainerRunWriter};
use serde_json::{from_str, from_value, json};

use super::*;

const ALL: [Rule; 12] = [
    Rule::R0,
    Rule::R1,
    Rule::R2,
    Rule::R3,
    Rule::R4,
    Rule::R5,
    Rule::R6,
    Rule::R7,
    Rule::R8,
    Rule::R9,
    Rule::V1,
    Rule::V2,
];

/// A change of a status, and the names of the rules that refuse it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vector {
    name: String,
    subresource: String,
    caller_pod_uid: Option<String>,
    old: Option<Status>,
    new: Option<Status>,
    deny_by: Vec<String>,
}

#[test]
fn each_vector_is_refused_by_the_rules_that_it_names_and_no_others() {
    let vectors: Vec<Vector> =
        from_str(include_str!("../../../golden/claim/vectors.json")).unwrap();
    assert_eq!(vectors.len(), 69);
    for vector in vectors {
        let part = match vector.subresource.as_str() {
            "main" => Part::Main,
            _ => Part::Status(vector.caller_pod_uid.as_deref()),
        };
        let refused = refusals(vector.old.as_ref(), vector.new.as_ref(), part);
        let names: Vec<&str> = refused.iter().map(|rule| &rule.text()[..2]).collect();
        assert_eq!(names, vector.deny_by, "{}", vector.name);
    }
}

#[test]
fn rule_texts_equal_those_of_the_crd_and_of_the_policy() {
    let crd: Value =
        from_str(include_str!("../../../golden/claim/crd-schema-fragment.json")).unwrap();
    let policy: Value =
        from_str(include_str!("../../../golden/claim/vap-expressions.json")).unwrap();
    let lists = [
        &crd["x-kubernetes-validations"],
        &crd["properties"]["status"]["x-kubernetes-validations"],
        &policy["validations"],
    ];
    let published: BTreeSet<&str> = lists
        .into_iter()
        .flat_map(|list| list.as_array().unwrap())
        .map(|rule| rule["message"].as_str().unwrap())
        .collect();
    assert_eq!(published, ALL.into_iter().map(Rule::text).collect());
}

fn status(phase: Phase, epoch: i64, seq: i64, attempt: i32) -> Status {
    let holder = "a/1".to_owned();
    Status {
        claim: ContainerRunClaim { holder: holder.clone(), epoch },
        writer: ContainerRunWriter { holder, epoch, seq },
        phase,
        attempt,
        message: String::new(),
    }
}

/// Cases that the vectors leave out.
#[test]
fn a_status_cannot_be_removed_and_each_claim_needs_a_new_epoch() {
    let as_a = Part::Status(Some("a"));
    let queued = status(Phase::Queued, 1, 4, 1);
    assert_eq!(refusals(Some(&queued), None, as_a), [Rule::R0]);
    let same_epoch = status(Phase::Claimed, 1, 5, 2);
    assert_eq!(refusals(Some(&queued), Some(&same_epoch), as_a), [Rule::R3]);
    let claimed = status(Phase::Claimed, 2, 5, 2);
    assert_eq!(refusals(Some(&queued), Some(&claimed), as_a), []);
    let unstamped = status(Phase::Starting, 2, 5, 2);
    assert_eq!(refusals(Some(&claimed), Some(&unstamped), as_a), [Rule::R5, Rule::V2]);
    let named_alike = Part::Status(Some("a/"));
    assert_eq!(refusals(None, Some(&status(Phase::Claimed, 1, 1, 1)), named_alike), [Rule::V1]);
}

#[test]
fn a_refusal_names_each_rule_and_unreadable_objects_are_left_to_the_schema() {
    let run = |status: Value| json!({"apiVersion": "warren.nnf.cray.hpe.com/v1alpha1", "kind": "ContainerRun", "metadata": {"name": "r"}, "spec": {}, "status": status});
    let stored: Status = status(Phase::Running, 2, 7, 1);
    let mut stale = stored.clone();
    (stale.claim.epoch, stale.writer.epoch, stale.attempt) = (1, 1, 2);
    let (stored, stale) = (run(json!(stored)), run(json!(stale)));
    let refusal = admit(Some(&stored), &stale, Part::Status(Some("b"))).unwrap_err();
    let names: Vec<&str> = refusal.split("; ").map(|text| &text[..2]).collect();
    assert_eq!(names, ["R1", "R5", "R8", "V1", "V2"]);
    assert_eq!(admit(Some(&stored), &json!({"spec": 3}), Part::Main), Ok(()));
    assert_eq!(admit(Some(&json!({"spec": 3})), &stale, Part::Main), Ok(()));
    assert_eq!(admit(None, &run(Value::Null), Part::Main), Ok(()));
    let _: ContainerRun = from_value(run(Value::Null)).unwrap();
}

#[test]
fn the_packaged_policy_has_the_expressions_that_the_vectors_were_checked_with() {
    let golden: Value =
        from_str(include_str!("../../../golden/claim/vap-expressions.json")).unwrap();
    let shipped = include_str!("../../../../../packaging/kubernetes/claims/claim-writes.yaml");
    let shipped: Vec<Value> = serde_saphyr::from_multiple(shipped).unwrap();
    let rules = |policy: &Value| -> Vec<(Value, Value)> {
        let validations = policy["validations"].as_array().unwrap().iter();
        validations.map(|rule| (rule["expression"].clone(), rule["message"].clone())).collect()
    };
    assert_eq!(rules(&shipped[0]["spec"]), rules(&golden));
}

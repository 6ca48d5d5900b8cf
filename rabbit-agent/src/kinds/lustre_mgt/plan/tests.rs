use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::*;

fn reference(name: &str) -> Value {
    json!({"kind": "NnfStorage", "name": name, "namespace": "default"})
}

fn mgt(spec: &Value, status: Value) -> NnfLustreMgt {
    let mut object = json!({"metadata": {"name": "mgt"}, "spec": {"addresses": ["10.0.0.1@tcp"]}});
    object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    object["status"] = status;
    serde_json::from_value(object).unwrap()
}

fn claims(names: &[&str]) -> Value {
    names.iter().copied().map(reference).collect()
}

fn status_claims(names: &[(&str, &str)]) -> Value {
    names.iter().map(|(who, name)| json!({"reference": reference(who), "fsname": name})).collect()
}

fn published(next: Option<&str>) -> Published {
    Published {
        namespace: "nnf-system".into(),
        name: "names".into(),
        next: next.map(str::to_owned),
        version: Some("7".into()),
    }
}

/// Applies actions until none is left; every action on the target succeeds. Returns the actions and the ConfigMap.
fn settle(
    object: &mut NnfLustreMgt,
    mut published: Option<Published>,
) -> (Vec<String>, Option<Published>) {
    let mut done = Vec::new();
    while let Some((_, action)) = plan(object, published.as_ref(), &[]) {
        match action.unwrap() {
            Action::WriteStatus(status) => object.status = Some(*status),
            Action::Publish(name) => {
                done.push(format!("publish {name}"));
                published.as_mut().unwrap().next = Some(name.to_string());
            }
            Action::Erase(claim) => {
                done.push(format!("erase {}", claim.fs_name));
                object.status = Some(without_claim(object, &claim));
            }
            Action::Run(entry) => {
                done.push(entry.commands.join("; "));
                object.status = Some(with_commands_run(object, &entry, None));
            }
        }
    }
    (done, published)
}

fn names_of(object: &NnfLustreMgt) -> Vec<&str> {
    object
        .status
        .iter()
        .flat_map(|status| &status.claim_list)
        .map(|claim| &*claim.fs_name)
        .collect()
}

fn next_of(object: &NnfLustreMgt) -> &str {
    &object.status.as_ref().unwrap().fs_name_next
}

fn error_of(object: &NnfLustreMgt, published: Option<&Published>) -> String {
    plan(object, published, &[]).unwrap().1.unwrap_err().to_string()
}

#[test]
fn the_first_claim_gets_the_first_name() {
    let spec = json!({"fsNameStart": "bbbbbbbb", "claimList": claims(&["one"])});
    let mut object = mgt(&spec, Value::Null);
    assert!(settle(&mut object, None).0.is_empty());
    assert_eq!((names_of(&object), next_of(&object)), (vec!["bbbbbbbb"], "bbbbbbbc"));
}

#[test]
fn after_the_last_possible_name_the_first_possible_name_is_given_out() {
    let spec = json!({"fsNameStart": "zzzzzzzz", "claimList": claims(&["one", "two"])});
    let mut object = mgt(&spec, Value::Null);
    settle(&mut object, None);
    assert_eq!(names_of(&object), ["zzzzzzzz", "aaaaaaaa"]);
    assert_eq!(next_of(&object), "aaaaaaab");
}

#[test]
fn the_first_name_comes_from_the_config_map_and_the_next_name_is_written_to_it_first() {
    let spec = json!({"fsNameStart": "aaaaaaaa", "claimList": claims(&["one"])});
    let mut object = mgt(&spec, Value::Null);
    let (done, left) = settle(&mut object, Some(published(Some("cccccccc"))));
    assert_eq!((names_of(&object), next_of(&object)), (vec!["cccccccc"], "cccccccd"));
    assert_eq!((done, left), (vec!["publish cccccccd".into()], Some(published(Some("cccccccd")))));

    let mut empty = mgt(&json!({"fsNameStart": "aaaaaaaa"}), Value::Null);
    let (done, _) = settle(&mut empty, Some(published(None)));
    assert!(done.is_empty() && next_of(&empty) == "aaaaaaaa", "no name was given out");
}

#[test]
fn black_listed_names_and_those_in_use_are_skipped() {
    let spec = json!({
        "fsNameStart": "aaaaaaaa", "fsNameBlackList": ["aaaaaaaa", "aaaaaaac", "anything"],
        "claimList": claims(&["old", "one", "two"])
    });
    let mut object = mgt(&spec, Value::Null);
    settle(&mut object, None);
    assert_eq!(names_of(&object), ["aaaaaaab", "aaaaaaad", "aaaaaaae"]);
    // An administrator reset the counter of names.
    let status =
        json!({"fsNameNext": "aaaaaaab", "claimList": status_claims(&[("old", "aaaaaaad")])});
    let mut object = mgt(&spec, status);
    settle(&mut object, None);
    assert_eq!(names_of(&object), ["aaaaaaad", "aaaaaaab", "aaaaaaae"]);
}

#[test]
fn each_action_gives_a_name_to_one_claim() {
    let spec = json!({"claimList": claims(&["one", "two", "one"])});
    let mut object = mgt(&spec, json!({"fsNameNext": "aaaaaaaa"}));
    let (work, action) = plan(&object, None, &[]).unwrap();
    let Ok(Action::WriteStatus(status)) = action else { panic!("{action:?}") };
    assert_eq!((work, status.claim_list.len()), (Work::Names, 1));
    settle(&mut object, None);
    assert_eq!(names_of(&object), ["aaaaaaaa", "aaaaaaab"], "a repeated claim counts once");
}

#[test]
fn a_withdrawn_name_is_erased_before_it_is_given_out_again() {
    let spec = json!({"claimList": claims(&["new"])});
    let status =
        json!({"fsNameNext": "aaaaaaaa", "claimList": status_claims(&[("old", "aaaaaaaa")])});
    let mut object = mgt(&spec, status);
    let (done, _) = settle(&mut object, None);
    assert_eq!(done, ["erase aaaaaaaa"]);
    assert_eq!(names_of(&object), ["aaaaaaab"], "the name was in use when the new one was chosen");
}

/// Go controllers write a missing reference as `{}`, or leave it out.
#[test]
fn an_empty_reference_equals_a_missing_one() {
    let without_reference =
        json!({"fsNameNext": "aaaaaaab", "claimList": [{"fsname": "aaaaaaaa", "reference": {}}]});
    assert!(
        plan(&mgt(&json!({}), without_reference), None, &[]).is_none(),
        "nothing withdrew a claim"
    );
    let spec = json!({"commandList": [{"reference": {}, "commands": ["lctl"]}]});
    let expected = json!({"fsNameNext": "aaaaaaab", "commandList": [{"ready": true}]});
    assert!(
        plan(&mgt(&spec, expected), None, &[]).is_none(),
        "the command has run, and the spec still has it"
    );
}

#[test]
fn unclaimed_and_invalid_names_are_not_erased() {
    let without_reference =
        json!({"fsNameNext": "aaaaaaab", "claimList": [{"fsname": "aaaaaaaa"}]});
    assert!(plan(&mgt(&json!({}), without_reference), None, &[]).is_none());
    let shell = status_claims(&[("old", "a; rm x")]);
    let object = mgt(&json!({}), json!({"fsNameNext": "aaaaaaab", "claimList": shell}));
    assert!(error_of(&object, None).contains("\"a; rm x\" is not a Lustre file system name"));
}

#[test]
fn commands_run_once_in_order_and_their_records_are_removed_with_their_entry() {
    let entry = |who, line| json!({"reference": reference(who), "commands": [line]});
    let list = json!([entry("one", "lctl one"), entry("two", "lctl two")]);
    let status = json!({"fsNameNext": "aaaaaaab", "commandList": [
        {"reference": reference("gone"), "ready": true},
        {"reference": reference("two"), "ready": false, "error":
            {"debugMessage": "x", "severity": "Minor", "type": "Internal"}}]});
    let mut object = mgt(&json!({"commandList": list}), status);
    let (done, _) = settle(&mut object, None);
    assert_eq!(done, ["lctl one", "lctl two"]);
    let expected = &object.status.as_ref().unwrap().command_list;
    let names: Vec<_> =
        expected.iter().map(|command| command.reference.name.clone().unwrap()).collect();
    assert_eq!(names, ["two", "one"]);
    assert!(
        expected.iter().all(|command| command.ready && command.error.is_none()),
        "{expected:?}"
    );
}

#[test]
fn commands_changed_while_they_ran_are_not_reported_done() {
    let entry = |line| json!([{"reference": reference("one"), "commands": [line]}]);
    let before = mgt(&json!({"commandList": entry("old")}), json!({"fsNameNext": "aaaaaaaa"}));
    let after = mgt(&json!({"commandList": entry("new")}), json!({"fsNameNext": "aaaaaaaa"}));
    let ran = &before.spec.command_list[0];
    assert!(with_commands_run(&after, ran, None).command_list.is_empty());
    assert!(with_commands_run(&before, ran, None).command_list[0].ready);
}

#[test]
fn a_failure_stops_no_other_work() {
    let entry = json!([{"reference": reference("one"), "commands": ["lctl"]}]);
    let spec = json!({"claimList": claims(&["one"]), "commandList": entry});
    let status =
        json!({"fsNameNext": "AAAAAAAA", "claimList": status_claims(&[("old", "aaaaaaaa")])});
    let object = mgt(&spec, status);
    let mut failed = Vec::new();
    while let Some((work, _)) = plan(&object, None, &failed) {
        failed.push(work);
    }
    let expected: Vec<_> = failed.iter().map(ToString::to_string).collect();
    assert_eq!(expected, ["give out names", "erase aaaaaaaa", "run the commands of one"]);
}

#[test]
fn a_deleted_object_gives_out_no_name_and_erases_withdrawn_names() {
    let entry = json!([{"reference": reference("one"), "commands": ["lctl"]}]);
    let spec = json!({"claimList": claims(&["kept", "new"]), "commandList": entry});
    let status = json!({"fsNameNext": "aaaaaaac", "claimList":
        status_claims(&[("old", "aaaaaaaa"), ("kept", "aaaaaaab")])});
    let mut object = mgt(&spec, status);
    object.metadata.deletion_timestamp = Some(Time("2026-06-01T07:12:09Z".parse().unwrap()));
    assert_eq!(settle(&mut object, None).0, ["erase aaaaaaaa"]);
    assert_eq!(names_of(&object), ["aaaaaaab"]);
}

/// A later job must not get a name that is still on a target, unless the target is removed together
/// with the name's owner.
#[test]
fn a_name_goes_with_its_target_if_the_targets_owner_made_the_claim_or_the_object_is_deleted() {
    let status = json!({"fsNameNext": "aaaaaaac", "claimList":
        status_claims(&[("own", "aaaaaaaa"), ("other", "a; rm x")])});
    let mut object = mgt(&json!({}), status);
    let goes = |object: &NnfLustreMgt| -> Vec<bool> {
        let claims = &object.status.as_ref().unwrap().claim_list;
        claims.iter().map(|claim| goes_with_target(object, claim)).collect()
    };
    assert_eq!(goes(&object), [false, false], "without labels the owner is unknown");
    let labels = [
        (label::OWNER_KIND, "NnfStorage"),
        (label::OWNER_NAME, "own"),
        (label::OWNER_NAMESPACE, "default"),
    ];
    let labels = BTreeMap::from(labels.map(|(key, value)| (key.to_owned(), value.to_owned())));
    object.metadata.labels = Some(labels.clone());
    assert_eq!(goes(&object), [true, false]);
    let other = plan(&object, None, &[Work::Erase("aaaaaaaa".into())]).unwrap();
    assert!(other.1.is_err(), "an invalid name must not be appended to a command");
    object.metadata.deletion_timestamp = Some(Time("2026-06-01T07:12:09Z".parse().unwrap()));
    assert_eq!(goes(&object), [true, true]);
    assert_eq!(settle(&mut object, None).0, ["erase aaaaaaaa", "erase a; rm x"]);
    for missing in labels.keys() {
        let mut object =
            mgt(&json!({}), json!({"claimList": status_claims(&[("own", "aaaaaaaa")])}));
        object.metadata.labels = Some(labels.clone());
        object.metadata.labels.as_mut().unwrap().remove(missing);
        assert_eq!(goes(&object), [false], "{missing}");
    }
}

#[test]
fn an_invalid_start_name_is_rejected_with_its_field() {
    let claim = json!({"claimList": claims(&["one"])});
    for (start, status, map, expected) in [
        ("Scratch1", Value::Null, None, "spec.fsNameStart: \"Scratch1\" is not a file system name"),
        ("", Value::Null, None, "spec.fsNameStart: is empty"),
        ("", Value::Null, Some(None), "spec.fsNameStartReference leads to no name"),
        (
            "aaaaaaaa",
            Value::Null,
            Some(Some("a1")),
            "ConfigMap nnf-system/names: data.NextFsName: \"a1\"",
        ),
        ("aaaaaaaa", json!({"fsNameNext": "UPPERCAS"}), None, "status.fsNameNext: \"UPPERCAS\""),
    ] {
        let mut spec = claim.clone();
        spec["fsNameStart"] = json!(start);
        let map = map.map(published);
        let error = error_of(&mgt(&spec, status), map.as_ref());
        assert!(error.contains(expected) && error.contains("8 letters from a to z"), "{error}");
    }
}

/// In each round a crash interrupts the work after some actions: the last action was done, but its result was not
/// written. Between rounds, claims are added and withdrawn. The seed gives the number of actions, and the claims that
/// exist in each round.
#[test]
fn no_two_claims_get_the_same_name_wherever_the_work_is_interrupted() {
    for seed in 0_u32..512 {
        let mut object =
            mgt(&json!({"fsNameStart": "zzzzzzzy", "fsNameBlackList": ["aaaaaaaa"]}), Value::Null);
        let mut map = Some(published(None));
        let mut erased = BTreeSet::new();
        for round in 0..9 {
            let wanted: Vec<_> = ["one", "two", "three"]
                .into_iter()
                .enumerate()
                .filter(|(bit, _)| (seed.rotate_right(round) >> bit) & 1 == 1)
                .map(|(_, name)| name)
                .collect();
            object.spec.claim_list = serde_json::from_value(claims(&wanted)).unwrap();
            let mut left = (seed >> (round % 5)) % 5;
            while let Some((_, action)) = plan(&object, map.as_ref(), &[]) {
                match action.unwrap() {
                    Action::Publish(name) => map.as_mut().unwrap().next = Some(name.to_string()),
                    Action::Erase(claim) => {
                        erased.insert(claim.fs_name.clone());
                        if left == 0 {
                            break;
                        }
                        object.status = Some(without_claim(&object, &claim));
                    }
                    Action::WriteStatus(_) if left == 0 => break,
                    Action::WriteStatus(status) => object.status = Some(*status),
                    Action::Run(entry) => panic!("{entry:?}"),
                }
                left = left.saturating_sub(1);
                let names = names_of(&object);
                let unlike: BTreeSet<_> = names.iter().collect();
                assert_eq!(unlike.len(), names.len(), "seed {seed}: {names:?}");
                assert!(!names.contains(&"aaaaaaaa"), "seed {seed}: {names:?}");
            }
        }
        settle(&mut object, map);
        let given = names_of(&object).len();
        assert_eq!(
            given,
            object.spec.claim_list.len(),
            "seed {seed}: each claim has a name in the end"
        );
        assert!(erased.iter().all(|name| name.parse::<FsName>().is_ok()));
    }
}

use serde_json::{Value, json};

use super::*;

fn mapping(rabbits: &[(&str, i64, &str)], computes: &[(&str, &str)]) -> Mapping {
    let rabbit = |(name, capacity, hostlist): &(&str, i64, &str)| {
        let hostlist = (*hostlist).to_owned();
        ((*name).to_owned(), Rabbit { capacity: *capacity, hostlist })
    };
    let compute = |(name, rabbit): &(&str, &str)| ((*name).to_owned(), (*rabbit).to_owned());
    Mapping {
        computes: computes.iter().map(compute).collect(),
        rabbits: rabbits.iter().map(rabbit).collect(),
    }
}

#[test]
fn each_difference_names_rabbit_or_compute_and_both_values() {
    let now = mapping(
        &[("r1", 10, "n[1-2]"), ("r2", 5, "n3")],
        &[("n1", "r1"), ("n2", "r1"), ("n3", "r2")],
    );
    let cases = [
        (now.clone(), vec![]),
        (
            mapping(
                &[("r2", 5, "n3"), ("r1", 10, "n1,n2")],
                &[("n3", "r2"), ("n2", "r1"), ("n1", "r1")],
            ),
            vec![],
        ),
        (
            mapping(
                &[("r1", 10, "n[1-2]"), ("r3", 1, "")],
                &[("n1", "r1"), ("n2", "r1"), ("n4", "r3")],
            ),
            vec![
                "rabbit r2 is in the cluster and not in the file",
                "rabbit r3 is in the file and not in the cluster",
                "compute n3 is under rabbit r2 in the cluster and not in the file",
                "compute n4 is under rabbit r3 in the file and not in the cluster",
            ],
        ),
        (
            mapping(
                &[("r1", 9, "n1"), ("r2", 5, "n[2-3]")],
                &[("n1", "r1"), ("n2", "r2"), ("n3", "r2")],
            ),
            vec![
                "rabbit r1: capacity is 9 bytes in the file, 10 now",
                "rabbit r1: hostlist is \"n1\" in the file, \"n[1-2]\" now",
                "rabbit r2: hostlist is \"n[2-3]\" in the file, \"n3\" now",
                "compute n2 is under rabbit r2 in the file and under r1 now",
            ],
        ),
    ];
    for (file, expected) in cases {
        assert_eq!(differences(&file, &now), expected, "{file:?}");
    }
}

#[test]
fn a_mapping_keeps_the_order_of_its_rabbits() {
    let text = r#"{"computes": {}, "rabbits": {"b": {"capacity": 1, "hostlist": ""}, "a": {"capacity": 2, "hostlist": ""}}}"#;
    let parsed = Mapping::parse(text).unwrap();
    let names: Vec<&str> = parsed.rabbits.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["b", "a"]);
    assert_eq!(crate::json::text(&parsed, None).unwrap(), text);
}

#[test]
fn a_text_without_the_keys_of_a_mapping_is_refused() {
    for text in ["", "[]", "{\"computes\": {}}", "{\"computes\": [], \"rabbits\": {}}"] {
        let error = Mapping::parse(text).unwrap_err().to_string();
        assert!(error.contains("warren flux rabbitmapping"), "{text}: {error}");
    }
}

/// Returns objects: the computes of r1 and r2, and the drives and free bytes of each one's Storage.
fn build(computes: [&[&str]; 2], drives: &[i64], free: i64) -> Result<Built, MappingError> {
    let access = |names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| json!({"name": name, "index": 0})).collect()
    };
    let nodes = json!([
        {"type": "Rabbit", "name": "r1", "computesAccess": access(computes[0])},
        {"type": "Rabbit", "name": "r2", "computesAccess": access(computes[1])},
    ]);
    let drives: Vec<Value> = drives.iter().map(|bytes| json!({"capacity": bytes})).collect();
    let storage = json!({"metadata": {"name": "r1"}, "spec": {"state": "Enabled"}, "status": {
        "capacity": free, "devices": drives, "access": {"computes": [{"name": "n1", "status": "Ready"}]}}});
    let system = json!({"metadata": {"name": "default"}, "spec": {"storageNodes": nodes}});
    let system = serde_json::from_value(system).unwrap();
    let storages = [serde_json::from_value(storage).unwrap()];
    Built::new(Objects { system: &system, storages: &storages, servers: &[] })
}

#[test]
fn a_capacity_is_that_of_the_drives_and_a_guess_is_named() {
    for (drives, free, expected) in [(&[4, 6][..], 1, 10), (&[], 3, 3), (&[0, 0], 2, 2)] {
        let built = build([&["n1"], &["n2"]], drives, free).unwrap();
        let capacity = |name: &str| built.mapping.rabbits.get(name).unwrap().capacity;
        assert_eq!([capacity("r1"), capacity("r2")], [expected; 2], "{drives:?}");
        let [guess] = built.guesses.as_slice() else { panic!("{:?}", built.guesses) };
        assert!(guess.starts_with("r2: no Storage has its computes"), "{guess}");
    }
}

#[test]
fn computes_of_two_rabbits_or_of_none_are_refused() {
    let wrong = |computes| build(computes, &[1], 1).unwrap_err();
    let owned = |text: &str| text.to_owned();
    let [compute, rabbit, first, second] = ["n1", "r1", "r1", "r2"].map(owned);
    let twice = MappingError::TwoRabbits { compute: compute.clone(), first, second };
    assert_eq!(wrong([&["n1"], &["n1"]]), twice);
    assert_eq!(wrong([&[], &[]]), MappingError::UnlistedCompute { rabbit, compute });
}

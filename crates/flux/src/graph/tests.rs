use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::{Mapping, Resources};

fn resources(r: &Value) -> Resources {
    Resources::parse(&json!({"execution": r})).unwrap()
}

fn settings(chunks: u32) -> Settings {
    Settings { cluster: "c".to_owned(), chunks, validate: false, excluded: BTreeSet::new() }
}

fn mapping(value: &Value) -> Mapping {
    serde_json::from_value(value.clone()).unwrap()
}

fn graph() -> Graph {
    let mapping = mapping(&json!({"computes": {"n1": "r1", "n2": "r2"}, "rabbits": {
        "r1": {"capacity": 4_i64 << 30, "hostlist": "n1"}, "r2": {"capacity": 4_i64 << 30, "hostlist": "n2"}}}));
    let r = json!({"R_lite": [{"rank": "0-2", "children": {"core": "0-1"}}], "nodelist": ["n[1-2],x"],
        "properties": {"fast": "0"}});
    build(&mapping, &resources(&r), &settings(2)).unwrap()
}

#[test]
fn each_difference_names_rabbit_or_node_and_both_values() {
    assert_eq!(differences(&graph(), &graph()).unwrap(), Vec::<String>::new());
    let mapping = mapping(&json!({"computes": {"n1": "r0", "n2": "r2"}, "rabbits": {
        "r0": {"capacity": 4_i64 << 30, "hostlist": "n1"}, "r2": {"capacity": 9_i64 << 30, "hostlist": "n2"},
        "r3": {"capacity": 0, "hostlist": ""}}}));
    let r =
        json!({"R_lite": [{"rank": "0,2", "children": {"core": "0-3"}}], "nodelist": ["n[1-2]"]});
    let now = build(&mapping, &resources(&r), &settings(3)).unwrap();
    let expected = [
        "rabbit r0 is in the cluster and not in the file",
        "rabbit r1 is in the file and not in the cluster",
        "rabbit r2 has 2 ssds of 2 GiB in the file, 3 ssds of 3 GiB now",
        "rabbit r3 is in the cluster and not in the file",
        "node n1 is under rabbit r1 in the file, rabbit r0 now",
        "node n1 has the properties fast in the file, none now",
        "node n1 has the resources core[0-1] in the file, core[0-3] now",
        "node n2 has the rank 1 in the file, 2 now",
        "node n2 has the resources core[0-1] in the file, core[0-3] now",
        "node x is in the file and not in the instance",
    ];
    assert_eq!(differences(&graph(), &now).unwrap(), expected);
}

#[test]
fn a_difference_that_no_rabbit_and_no_node_shows_is_reported() {
    let mut file = graph();
    file.graph.nodes[2].metadata.status = None;
    let found = differences(&file, &graph()).unwrap();
    assert_eq!(found, ["the vertices are the same, but their order or fields are not"]);
    file.graph.edges[0].target = "999".to_owned();
    assert!(differences(&file, &graph()).unwrap_err().to_string().contains("999"));
}

#[test]
fn a_graph_is_refused_if_r_lacks_a_compute_or_a_host_or_an_excluded_rank() {
    let mapping = mapping(&json!({"computes": {"n1": "r1", "n2": "r1"}, "rabbits": {
        "r1": {"capacity": 1, "hostlist": "n[1-2]"}}}));
    let single = resources(&json!({"R_lite": [{"rank": "0"}], "nodelist": ["n1"]}));
    let error = build(&mapping, &single, &Settings { validate: true, ..settings(1) }).unwrap_err();
    assert!(
        error.to_string().contains("n2") && error.to_string().contains("--no-validate"),
        "{error}"
    );
    let r = json!({"execution": {"R_lite": [{"rank": "0-1"}], "nodelist": ["n1"]}});
    assert!(
        Resources::parse(&r).unwrap_err().to_string().contains("2 ranks in R_lite and 1 hosts")
    );
    assert!(single.excluded("1").unwrap_err().to_string().contains("rank 1"));
    assert_eq!(single.excluded("n[1-2]").unwrap(), [0].into());
    assert!(single.excluded("n[").is_err());
}

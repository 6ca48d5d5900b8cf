use crate::standalone_coordinator::StandaloneCoordinator;

#[test]
fn get_shows_the_columns_of_the_kind() {
    let here = StandaloneCoordinator::with_mount();
    for kind in ["clientmounts", "clientmount", "ClientMount"] {
        let table = here.output(&["get", kind, "-n", "compute-1"]);
        let mut lines = table.lines();
        let header: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
        assert_eq!(header, ["NAME", "DESIREDSTATE", "READY", "ERROR", "AGE"]);
        assert!(lines.next().unwrap().starts_with("job "));
        assert_eq!(lines.next(), None);
    }
    let all = here.output(&["get", "clientmounts", "-A"]);
    assert!(all.starts_with("NAMESPACE") && all.contains("compute-1"), "{all}");
    assert_eq!(
        here.output(&["get", "clientmount", "job", "-n", "compute-1", "-o", "name"]),
        "clientmount/job\n"
    );
    let json = here.json(&["get", "clientmount", "job", "-n", "compute-1", "--json"]);
    assert_eq!(json["spec"]["node"], "compute-1");
    let yaml = here.output(&["get", "clientmount", "job", "-n", "compute-1", "-o", "yaml"]);
    assert!(yaml.contains("desiredState: mounted"), "{yaml}");
    here.warren(&["get", "clientmount", "other", "-n", "compute-1"]).assert().code(1);
    here.warren(&["get", "nonsense"]).assert().code(2);
}

#[test]
fn get_filters_by_label_selector() {
    let here = StandaloneCoordinator::with_mount();
    let selector = "dataworkflowservices.github.io/workflow.name";
    let some =
        here.output(&["get", "clientmounts", "-A", "-o", "name", "-l", &format!("{selector}=wf")]);
    assert_eq!(some, "clientmount/job\n");
    assert_eq!(
        here.output(&["get", "clientmounts", "-A", "-o", "name", "-l", &format!("{selector}!=wf")]),
        ""
    );
}

#[test]
fn mounts_are_listed_and_filtered_by_node_and_workflow() {
    let here = StandaloneCoordinator::with_mount();
    let table = here.output(&["mounts"]);
    assert!(table.starts_with("NODE") && table.contains("/mnt/nnf/job"), "{table}");
    let count = |arguments: &[&str]| here.json(arguments).as_array().unwrap().len();
    assert_eq!(count(&["mounts", "--json", "--node", "compute-1"]), 1);
    assert_eq!(count(&["mounts", "--json", "--node", "compute-2"]), 0);
    assert_eq!(count(&["mounts", "--json", "--node", "compute-[1-2]"]), 1);
    let unknown = here.warren(&["mounts", "--node", "compute-[1-2,8-9]"]).assert().code(2);
    let text = String::from_utf8(unknown.get_output().stderr.clone()).unwrap();
    assert!(text.contains("--node compute-[8-9]: the SystemConfiguration names no such"), "{text}");
    assert_eq!(count(&["mounts", "--json", "--workflow", "wf"]), 1);
    assert_eq!(count(&["mounts", "--json", "--workflow", "other"]), 0);
    let mount = &here.json(&["mounts", "--json"])[0];
    assert_eq!(
        (mount["desired"].as_str(), mount["ready"].as_bool()),
        (Some("mounted"), Some(false))
    );
}

#[test]
fn nodes_are_listed_with_their_index() {
    let here = StandaloneCoordinator::with_mount();
    let nodes = here.json(&["nodes", "--json"]);
    assert_eq!(nodes["gaps"], serde_json::json!([]));
    assert_eq!(nodes["nodes"][1]["node"], "compute-2");
    assert_eq!(nodes["nodes"][1]["index"], 6);
    assert_eq!(nodes["nodes"][1]["health"], "unknown");
    assert!(here.output(&["nodes"]).starts_with("NODE"));
}

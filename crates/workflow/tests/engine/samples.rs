//! Compares the engine's objects with the objects that the Go controllers made for the same directive.

use serde_json::{Value, json};

use crate::{
    job::{GIB, directive},
    site::Site,
};

pub(crate) fn captured(name: &str) -> Value {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../api/captured");
    serde_saphyr::from_str(&std::fs::read_to_string(format!("{folder}/{name}.yaml")).unwrap())
        .unwrap()
}

/// Collects the paths of an object's members at all depths. Names of nodes and objects become `*`.
fn shape(value: &Value, at: &str, found: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, inner) in members {
                let is_name = at.ends_with(".accesses") || at.ends_with(".storage");
                let name = if is_name { "*" } else { name };
                found.insert(format!("{at}.{name}"));
                shape(inner, &format!("{at}.{name}"), found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| shape(item, &format!("{at}[]"), found)),
        _ => {}
    }
}

pub(crate) fn assert_same_shape(ours: &Value, recorded: &Value, apart: &[&str]) {
    let paths = |object: &Value| {
        let mut found = std::collections::BTreeSet::new();
        shape(&object["spec"], "spec", &mut found);
        shape(&object["metadata"]["labels"], "labels", &mut found);
        found
    };
    let (ours, recorded) = (paths(ours), paths(recorded));
    let differ: Vec<_> = ours
        .symmetric_difference(&recorded)
        .filter(|path| !apart.iter().any(|known| path.contains(known)))
        .collect();
    assert!(differ.is_empty(), "{differ:#?}");
}

#[test]
fn breakdowns_equal_those_of_the_go_controllers() {
    for kind in ["xfs", "gfs2"] {
        let recorded = captured(&format!("directivebreakdown-{kind}"));
        let line = recorded["spec"]["directive"].as_str().unwrap().to_owned();
        let mut site = Site::new(3, 1000 * GIB);
        site.edit("NnfStorageProfile", "nnf-system", "default", |object| {
            object["data"][format!("{kind}Storage")]["allocationPadding"] = json!("300MiB");
        });
        let name = recorded["metadata"]["ownerReferences"][0]["name"].as_str().unwrap().to_owned();
        site.create(&name, &[line]);
        site.settle();
        let ours = site.get("DirectiveBreakdown", "default", &format!("{name}-0"));
        assert_eq!(ours["status"]["storage"], recorded["status"]["storage"], "{kind}");
        let ways = |object: &Value| {
            let mut ways = object["status"]["compute"]["constraints"]["location"].clone();
            // The order of the two kinds of access has no meaning.
            let access = ways[0]["access"].as_array_mut().unwrap();
            access.sort_by_key(ToString::to_string);
            ways
        };
        assert_eq!(ways(ours), ways(&recorded), "{kind}");
        assert_same_shape(ours, &recorded, &[]);
    }
}

#[test]
fn objects_for_agents_have_the_shape_of_the_go_controllers() {
    for kind in ["xfs", "gfs2", "raw"] {
        let mut site = Site::new(3, 1000 * GIB);
        site.bring("w", &[directive(kind, "scratch")], "PreRun", &["c1", "c2", "c3"]);
        let storage = format!("default-w-0-{kind}-0");
        let pairs =
            [("nnfnodestorage", "NnfNodeStorage", "r"), ("clientmount", "ClientMount", "c2")];
        for (file, kind_of_object, namespace) in pairs {
            let name =
                if kind_of_object == "ClientMount" { "default-w-0-computes" } else { &storage };
            let file = if kind_of_object == "ClientMount" {
                format!("{file}-{kind}-compute")
            } else {
                format!("{file}-{kind}")
            };
            assert_same_shape(
                site.get(kind_of_object, namespace, name),
                &captured(&file),
                &[".data"],
            );
        }
    }
    let mut site = Site::new(3, 1000 * GIB);
    site.bring("w", &[directive("gfs2", "scratch")], "PreRun", &["c1", "c2", "c3"]);
    let block = site.get("NnfNodeBlockStorage", "r", "default-w-0-gfs2-0");
    assert_same_shape(block, &captured("nnfnodeblockstorage-gfs2"), &[]);
    assert_eq!(block["spec"]["allocations"][0]["access"], json!(["r", "c1", "c2", "c3"]));
    assert_eq!(block["spec"]["allocations"][0]["capacity"], 3 * (GIB + (32 << 20)));
    let file_systems = site.get("NnfNodeStorage", "r", "default-w-0-gfs2-0");
    assert_eq!(file_systems["spec"]["capacity"], GIB);
    let tree = site.get("ClientMount", "r", "default-w-0-servers");
    assert_same_shape(tree, &captured("clientmount-gfs2-rabbit"), &["compute", ".data"]);
}

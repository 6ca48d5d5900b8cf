#![expect(clippy::needless_pass_by_value, reason = "json! makes values")]

use std::sync::Arc;

use serde_json::{Value, json};
use workload::Member;

use super::*;

fn member(kind: &str, node: &str, mut object: Value) -> Member {
    object["apiVersion"] = json!("x/v1");
    object["kind"] = json!(kind);
    object["metadata"]["name"] = json!("w-0");
    object["metadata"]["namespace"] = json!(node);
    Member { kind: kind.to_owned(), object: serde_json::from_value(object).unwrap() }
}

fn mount(node: &str, wanted: &str, status: Value) -> Member {
    let mount = json!({"mountPath": "/m", "setPermissions": false, "options": "", "type": "xfs", "targetType": "directory", "device": {"type": "lvm"}});
    let spec = json!({"node": node, "desiredState": wanted, "mounts": [mount]});
    let metadata = json!({
        "finalizers": ["nnf.cray.hpe.com/nnf_clientmount"],
        "labels": {"nnf.cray.hpe.com/directive_index": "0"},
    });
    member("ClientMount", node, json!({"metadata": metadata, "spec": spec, "status": status}))
}

fn status(state: &str, ready: bool) -> Value {
    json!({"allReady": ready, "mounts": [{"state": state, "ready": ready}]})
}

fn error(text: &str) -> Value {
    json!({"allReady": false, "mounts": [], "error": {"debugMessage": text, "severity": "Major", "type": "Internal"}})
}

fn computes(names: &[&str]) -> Member {
    let data: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    member("Computes", "default", json!({"data": data}))
}

fn facts(connected: &[&str], link: &str) -> Facts {
    let connected = connected.iter().map(|&name| name.to_owned()).collect();
    let rabbits = ["r".to_owned()].into();
    let mut facts = Facts { connected, rabbits, ..Facts::default() };
    for compute in ["c1", "c2"] {
        facts.site.rabbit_of.insert(compute.to_owned(), "r".to_owned());
    }
    let storage = json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Storage",
        "metadata": {"name": "r", "namespace": "default"}, "spec": {"state": "Enabled", "mode": "Live"},
        "status": {"type": "NVMe", "status": "Ready", "capacity": 0, "rebootRequired": false, "access": {"protocol": "PCIe",
            "servers": [], "computes": [{"name": "c1", "status": "Ready"}, {"name": "c2", "status": link}]}},
    });
    let storage = serde_json::from_value(storage).unwrap();
    facts.site.storages.insert("r".to_owned(), Arc::new(storage));
    facts
}

fn objects(state: &str, directives: usize, others: Vec<Member>) -> Objects {
    let lines =
        (0..directives).map(|index| format!("#DW jobdw type=xfs capacity=1GiB name=s{index}"));
    let mut workflow = workload::job("default", "w", ("s", "1"), (7, 7), lines.collect());
    workflow.spec.desired_state = state.into();
    Objects { workflow: Some(workflow), others }
}

fn conditions_in(
    state: &str,
    others: Vec<Member>,
    facts: &Facts,
) -> Vec<(String, Condition, bool)> {
    let nodes = conditions(&objects(state, 1, others), facts).into_iter();
    nodes.map(|node| (node.node.clone(), node.condition(), node.mounted)).collect()
}

fn node(name: &str, condition: Condition, mounted: bool) -> (String, Condition, bool) {
    (name.to_owned(), condition, mounted)
}

#[test]
fn without_a_reported_fault_a_node_is_pending_or_unreachable_and_not_faulty_or_down() {
    let mounts = || {
        let held = json!({});
        vec![
            computes(&["c2", "c1"]),
            mount("c1", "mounted", status("mounted", true)),
            mount("c2", "mounted", held),
        ]
    };
    let mounted = node("c1", Condition::Ready, true);
    for (facts, condition) in [
        (facts(&["c2"], "Ready"), Condition::Pending),
        (facts(&[], "Ready"), Condition::Unreachable),
        (facts(&[], "Unknown"), Condition::Unreachable),
        (facts(&["c2"], "Offline"), Condition::Down),
    ] {
        let nodes = conditions_in("PreRun", mounts(), &facts);
        assert_eq!(nodes, [node("c2", condition, true), mounted.clone()], "in the job's order");
    }
    let failed = vec![computes(&["c2"]), mount("c2", "mounted", error("mkfs: no space"))];
    let objects = Objects { workflow: None, others: failed };
    let nodes = conditions(&objects, &facts(&[], "Ready"));
    assert_eq!((nodes[0].condition(), &*nodes[0].evidence), (Condition::Faulty, "mkfs: no space"));
}

#[test]
fn a_node_with_an_expired_certificate_is_faulty() {
    let mut facts = facts(&[], "Ready");
    let mounts = vec![computes(&["c1"]), mount("c1", "mounted", json!({}))];
    let objects = objects("PreRun", 1, mounts);
    assert_eq!(conditions(&objects, &facts)[0].condition(), Condition::Unreachable);
    facts.shut_out.insert("c1".to_owned(), "expired".to_owned());
    let node = &conditions(&objects, &facts)[0];
    assert_eq!((node.condition(), &*node.evidence), (Condition::Faulty, "not mounted: expired"));
}

#[test]
fn a_disconnected_rabbit_is_unreachable_and_not_down() {
    let block = |status: Value| {
        member(
            "NnfNodeBlockStorage",
            "r",
            json!({"spec": {"allocations": [], "sharedAllocation": false}, "status": status}),
        )
    };
    let conditions = |status: Value, connected: &[&str]| {
        let nodes = conditions_in("Setup", vec![block(status)], &facts(connected, "Ready"));
        nodes.into_iter().map(|(_, condition, _)| condition).collect::<Vec<_>>()
    };
    assert_eq!(conditions(json!({"ready": false}), &[]), [Condition::Unreachable]);
    assert_eq!(conditions(json!({"ready": false}), &["r"]), [Condition::Pending]);
    assert_eq!(conditions(json!({"ready": true}), &[]), [Condition::Ready]);
    let broken = json!({"ready": false, "error": {"debugMessage": "d", "severity": "Major", "type": "Internal"}});
    assert_eq!(conditions(broken, &["r"]), [Condition::Faulty]);
}

#[test]
fn a_node_counts_as_mounted_until_its_client_mount_reports_unmounted_and_ready() {
    let facts = facts(&["c1"], "Ready");
    let after = |status: Value| {
        conditions_in("PostRun", vec![computes(&["c1"]), mount("c1", "unmounted", status)], &facts)
    };
    assert_eq!(after(status("mounted", true)), [node("c1", Condition::Pending, true)]);
    assert_eq!(after(status("unmounted", false)), [node("c1", Condition::Pending, true)]);
    assert_eq!(after(status("unmounted", true)), [node("c1", Condition::Ready, false)]);
    let nothing = conditions_in("PostRun", vec![computes(&["c1"])], &facts);
    assert_eq!(nothing, [node("c1", Condition::Ready, false)]);
    let soon = conditions_in("PreRun", vec![computes(&["c1"])], &facts);
    assert_eq!(soon, [node("c1", Condition::Pending, false)]);
}

#[test]
fn a_node_whose_client_mount_is_unreadable_counts_as_mounted() {
    let spoilt = member("ClientMount", "c1", json!({"metadata": {}, "spec": 7}));
    let nodes = conditions_in("PostRun", vec![computes(&["c1"]), spoilt], &facts(&["c1"], "Ready"));
    assert_eq!(nodes, [node("c1", Condition::Pending, true)]);
}

#[test]
fn a_compute_is_pending_while_a_directive_has_no_client_mount_on_it() {
    let mounts = vec![computes(&["c1"]), mount("c1", "mounted", status("mounted", true))];
    let objects = objects("PreRun", 2, mounts);
    let nodes = conditions(&objects, &facts(&["c1"], "Ready"));
    assert_eq!(nodes[0].condition(), Condition::Pending);
    assert_eq!(nodes[0].evidence, "it has no ClientMount yet");
    assert_eq!(unready_nodes(&objects), [(1, ["c1".to_owned()].into())].into());
}

#[test]
fn a_rabbit_whose_storage_is_not_requested_yet_is_pending() {
    let set = json!({"label": "xfs", "allocationSize": 1, "storage": [{"name": "r", "allocationCount": 1}]});
    let mut servers = member("Servers", "default", json!({"spec": {"allocationSets": [set]}}));
    servers.object.metadata.labels =
        Some([("nnf.cray.hpe.com/directive_index".to_owned(), "0".to_owned())].into());
    let objects = objects("Setup", 1, vec![computes(&["c1"]), servers]);
    let nodes = conditions(&objects, &facts(&["r"], "Ready"));
    assert_eq!((nodes[1].node.as_str(), nodes[1].condition()), ("r", Condition::Pending));
    assert_eq!(unready_nodes(&objects), [(0, ["r".to_owned()].into())].into());
}

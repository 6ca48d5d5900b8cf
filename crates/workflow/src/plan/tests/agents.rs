//! Answers of the agents: they do at once what the objects request.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::objects::At;

/// Writes what the agents of all nodes that are not dead report. Returns true if anything changed.
pub(super) fn act(all: &mut BTreeMap<At, Value>, is_dead: &dyn Fn(&str) -> bool) -> bool {
    let mut changed = false;
    for (at, object) in all.iter_mut().filter(|(at, _)| !is_dead(&at.1)) {
        let status = match &*at.0 {
            "NnfNodeBlockStorage" => block_status(&object["spec"]),
            "NnfNodeStorage" => {
                let health = object["status"]["health"].as_str().unwrap_or("Healthy");
                json!({"ready": true, "health": health})
            }
            "ClientMount" => mount_status(&object["spec"]),
            "NnfLustreMGT" => target_status(object),
            "NnfDataMovement" if object["status"].is_null() => {
                json!({"state": "Finished", "status": "Success"})
            }
            "NodeContainers" if object["status"].is_null() => {
                object["metadata"]["finalizers"] = json!([api::names::finalizer::NODE_CONTAINERS]);
                json!({"state": "Starting", "attempt": 1, "startTime": "2027-01-15T08:00:00Z"})
            }
            "NodeContainers" if !object["metadata"]["deletionTimestamp"].is_null() => {
                object["metadata"]["finalizers"] = json!([]);
                continue;
            }
            _ => continue,
        };
        changed |= object["status"] != status;
        object["status"] = status;
    }
    changed
}

fn block_status(spec: &Value) -> Value {
    let allocation = |(index, allocation): (usize, &Value)| {
        let nodes = allocation["access"].as_array().unwrap().iter();
        let access: BTreeMap<String, Value> = nodes
            .map(|node| (node.as_str().unwrap().to_owned(), json!({"storageGroupId": "g"})))
            .collect();
        json!({"accesses": access, "capacityAllocated": allocation["capacity"],
            "devices": [{"NQN": "nqn.2026-11.test:d", "namespaceId": (index + 1).to_string()}]})
    };
    let allocations = spec["allocations"].as_array().unwrap().iter().enumerate();
    json!({"ready": true, "allocations": allocations.map(allocation).collect::<Vec<_>>()})
}

fn mount_status(spec: &Value) -> Value {
    let mounts = spec["mounts"].as_array().unwrap().iter();
    let mounts = mounts.map(|_| json!({"state": spec["desiredState"], "ready": true}));
    json!({"allReady": true, "mounts": mounts.collect::<Vec<_>>()})
}

/// Gives a name to each holder, and reports all commands as done. Names count from `fsNameStart`.
fn target_status(object: &Value) -> Value {
    let start = object["spec"]["fsNameStart"].as_str().unwrap_or_default();
    let spec = |list: &str| object["spec"][list].as_array().cloned().unwrap_or_default();
    let holders = spec("claimList");
    let names = holders.iter().enumerate().map(|(count, holder)| {
        let last = char::from(start.bytes().last().unwrap() + u8::try_from(count).unwrap());
        json!({"reference": holder, "fsname": format!("{}{last}", &start[..start.len() - 1])})
    });
    let commands = spec("commandList");
    let commands =
        commands.iter().map(|entry| json!({"reference": entry["reference"], "ready": true}));
    json!({"fsNameNext": "zzzzzzzz", "claimList": names.collect::<Vec<_>>(),
        "commandList": commands.collect::<Vec<_>>()})
}

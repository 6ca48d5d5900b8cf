//! Answers of the agents: they do at once what the objects request.

use std::collections::BTreeMap;

use api::names::{finalizer, movement};
use serde_json::{Value, json};

use super::objects::At;

/// Writes what the agents of all nodes that are not dead report, and lets them release deleted objects. Returns true if
/// anything changed.
pub(super) fn act(all: &mut BTreeMap<At, Value>, is_dead: &dyn Fn(&str) -> bool) -> bool {
    let mut changed = false;
    // An agent removes a file system before the block storage below it.
    let has_file_system: Vec<At> =
        all.keys().filter(|at| at.0 == "NnfNodeStorage").cloned().collect();
    for (at, object) in all.iter_mut().filter(|(at, _)| !is_dead(&at.1)) {
        let Some(status) = status_of(&at.0, object) else { continue };
        let (mut finalizers, is_going) =
            (json!([held_by(&at.0)]), !object["metadata"]["deletionTimestamp"].is_null());
        let above = ("NnfNodeStorage".to_owned(), at.1.clone(), at.2.clone());
        if is_going && !(at.0 == "NnfNodeBlockStorage" && has_file_system.contains(&above)) {
            finalizers = json!([]);
        }
        let before = object.clone();
        object["metadata"]["finalizers"] = finalizers;
        if !is_going {
            object["status"] = status;
        }
        changed |= *object != before;
    }
    changed
}

/// Returns the finalizer by which an agent holds an object.
fn held_by(kind: &str) -> &'static str {
    match kind {
        "ClientMount" => finalizer::CLIENT_MOUNT,
        "NnfNodeStorage" => finalizer::NNF_NODE_STORAGE,
        "NnfNodeBlockStorage" => finalizer::NNF_NODE_BLOCK_STORAGE,
        "NnfLustreMGT" => finalizer::NNF_LUSTRE_MGT,
        "NnfDataMovement" => movement::FINALIZER,
        _ => finalizer::NODE_CONTAINERS,
    }
}

/// Returns what an agent reports about an object; `None` for objects of other writers.
fn status_of(kind: &str, object: &Value) -> Option<Value> {
    let known = object["status"].clone();
    Some(match kind {
        "NnfNodeBlockStorage" => block_status(&object["spec"]),
        "NnfNodeStorage" => {
            let health = known["health"].as_str().unwrap_or("Healthy");
            json!({"ready": true, "health": health})
        }
        "ClientMount" => mount_status(&object["spec"]),
        "NnfLustreMGT" if object["metadata"]["namespace"] != "nnf-system" => target_status(object),
        "NnfDataMovement" | "NodeContainers" if !known.is_null() => known,
        // The engine itself writes the status of a copy by MPI.
        "NnfDataMovement" if object["metadata"]["labels"][movement::MPI_RUN].is_string() => known,
        "NnfDataMovement" => json!({"state": "Finished", "status": "Success"}),
        "NodeContainers" => {
            json!({"state": "Starting", "attempt": 1, "startTime": "2027-01-15T08:00:00Z"})
        }
        _ => return None,
    })
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

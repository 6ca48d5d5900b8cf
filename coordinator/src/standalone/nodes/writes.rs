//! Admits the changes that a node may make: of the status, of its own finalizers, and of the pod's name in its NnfNode. On
//! a cluster the policy `warren-agent-writes` does the same.

use std::collections::BTreeSet;

use api::names::{NNF_NODE, finalizer, movement};
use kubeapi::{Change, Operation};
use serde_json::Value;

use super::node_names;

/// Returns why a node may not make a change; `Ok` for users that are no nodes.
pub(in crate::standalone) fn check(change: &kubeapi::Change<'_>) -> Result<(), String> {
    let Some(names) = node_names(change.user) else { return Ok(()) };
    match (change.operation, change.resource, change.old, change.new) {
        (Operation::Create, "events", ..) => Ok(()),
        (Operation::Create, "namespaces", _, Some(new)) => {
            let name = new["metadata"]["name"].as_str().unwrap_or_default();
            if names.contains(&name) {
                return Ok(());
            }
            Err(format!("a node makes the namespace of its own name only, not {name}"))
        }
        (Operation::Create, "nnfnodes", _, Some(new)) if new["metadata"]["name"] == NNF_NODE => {
            Ok(())
        }
        (Operation::Update, resource, Some(old), Some(new)) => update(change, resource, old, new),
        (operation, resource, ..) => {
            Err(format!("a node does not {} {resource}", format!("{operation:?}").to_lowercase()))
        }
    }
}

fn update(change: &Change<'_>, resource: &str, old: &Value, new: &Value) -> Result<(), String> {
    let own = own_finalizers(resource).ok_or_else(|| format!("a node writes no {resource}"))?;
    if change.subresource == Some("status") {
        return Ok(());
    }
    if spec(resource, old) != spec(resource, new) {
        return Err("a node does not change the spec".to_owned());
    }
    for field in ["labels", "annotations", "ownerReferences"] {
        if content(&old["metadata"][field]) != content(&new["metadata"][field]) {
            return Err(format!("a node does not change {field}"));
        }
    }
    let (was, is) = (finalizers(old), finalizers(new));
    match was.symmetric_difference(&is).find(|name| !own.contains(*name)) {
        None => Ok(()),
        Some(other) => Err(format!("a node adds and removes its own finalizers only, not {other}")),
    }
}

/// Returns the finalizers of the agents for a kind; `None` for kinds that agents do not write.
fn own_finalizers(resource: &str) -> Option<&'static [&'static str]> {
    Some(match resource {
        "clientmounts" => &[finalizer::CLIENT_MOUNT],
        "nnfnodestorages" => &[finalizer::NNF_NODE_STORAGE],
        "nnfnodeblockstorages" => &[finalizer::NNF_NODE_BLOCK_STORAGE, finalizer::NNF_NODE_STORAGE],
        "nnflustremgts" => &[finalizer::NNF_LUSTRE_MGT],
        "nnfdatamovements" => &[movement::FINALIZER],
        "nodecontainers" => &[finalizer::NODE_CONTAINERS],
        "nnfnodes" => &[],
        _ => return None,
    })
}

/// Returns the spec without what the node itself writes.
fn spec(resource: &str, object: &Value) -> Value {
    let mut spec = object["spec"].clone();
    if let Some(fields) = spec.as_object_mut().filter(|_| resource == "nnfnodes") {
        fields.remove("pod");
    }
    spec
}

/// Returns a map or list; an empty one is the same as none.
fn content(value: &Value) -> Option<&Value> {
    let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty)
        || value.as_array().is_some_and(Vec::is_empty);
    Some(value).filter(|value| !value.is_null() && !is_empty)
}

fn finalizers(object: &Value) -> BTreeSet<&str> {
    let list = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

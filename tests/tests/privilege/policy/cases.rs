//! Writes that the policies admit or refuse.

use api::names::finalizer;
use serde_json::{Value, json};

use super::objects::{FOREIGN, client_mount, namespace, nnf_node};
use crate::ask::Ask;

const CLIENT_MOUNTS: &str = "dataworkflowservices.github.io/clientmounts";
const NODES: &str = "nnf.cray.hpe.com/nnfnodes";

/// A write, and whether the policies refuse it.
pub(super) struct Case {
    pub(super) what: &'static str,
    pub(super) ask: Ask,
    pub(super) body: Value,
    /// Words in the refusal; `None` if the write is admitted.
    pub(super) refused: Option<&'static str>,
}

fn case(
    what: &'static str,
    (verb, resource, namespace, name): (&'static str, &'static str, &str, &str),
    body: Value,
    refused: Option<&'static str>,
) -> Case {
    let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
    Case {
        what,
        ask: Ask { verb, resource, namespace, name: Some(name.to_owned()) },
        body,
        refused,
    }
}

const OWN: &str = "writes in its own namespace only";
const WANTED: &str = "do not change the spec";
const LABELS: &str = "labels, annotations or owners";
const FINALIZERS: &str = "their own finalizers only";

fn status() -> Value {
    json!({"status": {"mounts": [{"state": "mounted", "ready": true}], "allReady": true}})
}

fn finalizers(names: &[&str]) -> Value {
    json!({"metadata": {"finalizers": names}})
}

/// Returns cases for an identity that may write the statuses of ClientMounts in the namespace `here`, but not in
/// `there`: it writes to ClientMounts, and to objects that no node may change.
pub(super) fn on_client_mounts(here: &str, there: &str) -> Vec<Case> {
    let free = ("patch", CLIENT_MOUNTS, here, "free");
    let held = ("patch", CLIENT_MOUNTS, here, "held");
    let report =
        |place| ("patch", "dataworkflowservices.github.io/clientmounts/status", place, "free");
    let own = finalizer::CLIENT_MOUNT;
    vec![
        case("report", report(here), status(), None),
        case("put its finalizer on", free, finalizers(&[FOREIGN, own]), None),
        case("take its finalizer off", held, finalizers(&[FOREIGN]), None),
        case("put a foreign finalizer on", free, finalizers(&[FOREIGN, "a.b/c"]), Some(FINALIZERS)),
        case("take a foreign finalizer off", held, finalizers(&[own]), Some(FINALIZERS)),
        case(
            "take all finalizers off",
            held,
            json!({"metadata": {"finalizers": null}}),
            Some(FINALIZERS),
        ),
        case("change the spec", free, json!({"spec": {"desiredState": "unmounted"}}), Some(WANTED)),
        case("label", free, json!({"metadata": {"labels": {"a": "b"}}}), Some(LABELS)),
        case("annotate", free, json!({"metadata": {"annotations": {"a": "b"}}}), Some(LABELS)),
        case(
            "set an owner",
            free,
            json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]}}),
            Some(LABELS),
        ),
        case("delete", ("delete", CLIENT_MOUNTS, here, "free"), json!({}), Some("delete nothing")),
        case(
            "delete all ClientMounts of a namespace",
            ("deletecollection", CLIENT_MOUNTS, here, "free"),
            json!({}),
            Some("delete nothing"),
        ),
        case(
            "create",
            ("create", CLIENT_MOUNTS, here, ""),
            client_mount("new", here),
            Some("create nothing but"),
        ),
        case("report a status in another namespace", report(there), status(), Some(OWN)),
        case(
            "put its finalizer on in another namespace",
            ("patch", CLIENT_MOUNTS, there, "free"),
            finalizers(&[FOREIGN, own]),
            Some(OWN),
        ),
        case(
            "write a profile",
            ("patch", "nnf.cray.hpe.com/nnfstorageprofiles", "default", "pinned"),
            json!({"data": {"pinned": false}}),
            Some("denied request"),
        ),
        case(
            "write a SystemConfiguration",
            ("patch", "dataworkflowservices.github.io/systemconfigurations", "default", "default"),
            json!({"spec": {"ports": ["1"]}}),
            Some("denied request"),
        ),
        case(
            "make a namespace",
            ("create", "/namespaces", "", ""),
            namespace("anywhere"),
            Some(OWN),
        ),
        case(
            "delete its namespace",
            ("delete", "/namespaces", "", here),
            json!({}),
            Some("neither changes nor deletes"),
        ),
    ]
}

/// Returns cases for the rabbit `here`: it writes to objects of other kinds than ClientMount.
pub(super) fn on_rabbits(here: &str, there: &str) -> Vec<Case> {
    let storage = ("patch", "nnf.cray.hpe.com/nnfnodestorages", here, "work");
    let blocks = ("patch", "nnf.cray.hpe.com/nnfnodeblockstorages", here, "work");
    let names = ("patch", "nnf.cray.hpe.com/nnflustremgts", here, "names");
    let packs = |place| ("patch", "warren.nnf.cray.hpe.com/nodecontainers", place, "packs");
    let packed = |place| ("patch", "warren.nnf.cray.hpe.com/nodecontainers/status", place, "packs");
    let is_packed = json!({"status": {"state": "Ready", "attempt": 0}});
    let node = |place, name| ("patch", NODES, place, name);
    let (cross, own) = (finalizer::NNF_NODE_STORAGE, finalizer::NNF_NODE_BLOCK_STORAGE);
    vec![
        case("put its finalizer on file systems", storage, finalizers(&[cross]), None),
        case(
            "put the finalizer of drives on file systems",
            storage,
            finalizers(&[own]),
            Some(FINALIZERS),
        ),
        case("put both of its finalizers on drives", blocks, finalizers(&[cross, own]), None),
        case(
            "take its finalizer off a management target",
            names,
            json!({"metadata": {"finalizers": null}}),
            None,
        ),
        case(
            "put the finalizer of file systems on a management target",
            names,
            finalizers(&[cross]),
            Some(FINALIZERS),
        ),
        case(
            "ask for a file system name",
            names,
            json!({"spec": {"claimList": [{"name": "x"}]}}),
            Some(WANTED),
        ),
        case(
            "put its finalizer on job packages",
            packs(here),
            finalizers(&[finalizer::NODE_CONTAINERS]),
            None,
        ),
        case("report job packages", packed(here), is_packed.clone(), None),
        case("report job packages of another rabbit", packed(there), is_packed, Some(OWN)),
        case(
            "change the wanted job packages",
            packs(here),
            json!({"spec": {"userID": 1}}),
            Some(WANTED),
        ),
        case(
            "change the wanted capacity",
            blocks,
            json!({"spec": {"allocations": []}}),
            Some(WANTED),
        ),
        case(
            "record its pod in its NnfNode",
            node(here, "nnf-nlc"),
            json!({"spec": {"pod": "another"}}),
            None,
        ),
        case(
            "change the wanted state of its NnfNode",
            node(here, "nnf-nlc"),
            json!({"spec": {"state": "Disable"}}),
            Some(WANTED),
        ),
        case(
            "record its pod in a second NnfNode",
            node(here, "other"),
            json!({"spec": {"pod": "another"}}),
            Some(WANTED),
        ),
        case("create its NnfNode", ("create", NODES, here, ""), nnf_node("nnf-nlc", here), None),
        case(
            "create another NnfNode",
            ("create", NODES, here, ""),
            nnf_node("new", here),
            Some("create nothing but"),
        ),
        case(
            "create its NnfNode in another namespace",
            ("create", NODES, there, ""),
            nnf_node("nnf-nlc", there),
            Some(OWN),
        ),
        case("create its namespace", ("create", "/namespaces", "", ""), namespace(here), None),
        case(
            "create another node's namespace",
            ("create", "/namespaces", "", ""),
            namespace(there),
            Some(OWN),
        ),
    ]
}

pub(super) fn on_tokens(own: &str, other: &str) -> Vec<Case> {
    let token = |name| ("create", "/serviceaccounts/token", "warren-nodes", name);
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}});
    vec![
        case("renew its token", token(own), request.clone(), None),
        case(
            "renew the token of another",
            token(other),
            request,
            Some("renews its own token only"),
        ),
    ]
}

/// Returns cases for the coordinator. It may write the statuses for every compute, but may not change any `spec`.
pub(super) fn of_the_coordinator() -> Vec<Case> {
    let everywhere =
        ["compute-1", "compute-2"].into_iter().flat_map(|node| on_client_mounts(node, "none"));
    everywhere
        .filter(|case| case.refused != Some(OWN) && case.ask.resource != "/namespaces")
        .collect()
}

/// Returns cases for an identity that the policies do not limit: the writes of the cases of `compute-1` and `rabbit-1`,
/// all of them admitted.
pub(super) fn of_others() -> Vec<Case> {
    let cases = on_client_mounts("compute-1", "compute-2")
        .into_iter()
        .chain(on_rabbits("rabbit-1", "rabbit-2"));
    cases.map(|case| Case { refused: None, ..case }).collect()
}

/// Returns cases for a rabbit's token that is bound to no node, such as a token that was copied from a Secret.
pub(super) fn of_the_unbound() -> Vec<Case> {
    let reports =
        on_client_mounts("rabbit-1", "rabbit-2").into_iter().filter(|case| case.what == "report");
    reports.map(|case| Case { refused: Some("names no node"), ..case }).collect()
}

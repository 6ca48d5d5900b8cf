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
const WANTED: &str = "do not change what is wanted";
const LABELS: &str = "labels, annotations or owners";
const FINALIZERS: &str = "their own finalizers only";

fn status() -> Value {
    json!({"status": {"mounts": [{"state": "mounted", "ready": true}], "allReady": true}})
}

fn finalizers(names: &[&str]) -> Value {
    json!({"metadata": {"finalizers": names}})
}

/// Returns writes of ClientMounts by an identity that may report on those of `here`, and not on those of `there`.
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
            "own",
            free,
            json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]}}),
            Some(LABELS),
        ),
        case("delete", ("delete", CLIENT_MOUNTS, here, "free"), json!({}), Some("delete nothing")),
        case(
            "delete all",
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
        case("report elsewhere", report(there), status(), Some(OWN)),
        case(
            "hold elsewhere",
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

/// Returns writes of the other kinds by the rabbit `here`.
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
        case("hold file systems", storage, finalizers(&[cross]), None),
        case("hold them as drives", storage, finalizers(&[own]), Some(FINALIZERS)),
        case("hold drives twice", blocks, finalizers(&[cross, own]), None),
        case("give up names", names, json!({"metadata": {"finalizers": null}}), None),
        case("hold names as file systems", names, finalizers(&[cross]), Some(FINALIZERS)),
        case(
            "ask for a name",
            names,
            json!({"spec": {"claimList": [{"name": "x"}]}}),
            Some(WANTED),
        ),
        case("hold packages", packs(here), finalizers(&[finalizer::NODE_CONTAINERS]), None),
        case("report packages", packed(here), is_packed.clone(), None),
        case("report packages elsewhere", packed(there), is_packed, Some(OWN)),
        case("ask for packages", packs(here), json!({"spec": {"userID": 1}}), Some(WANTED)),
        case("ask for capacity", blocks, json!({"spec": {"allocations": []}}), Some(WANTED)),
        case(
            "say which pod speaks",
            node(here, "nnf-nlc"),
            json!({"spec": {"pod": "another"}}),
            None,
        ),
        case(
            "enable itself",
            node(here, "nnf-nlc"),
            json!({"spec": {"state": "Disable"}}),
            Some(WANTED),
        ),
        case(
            "speak for a second node",
            node(here, "other"),
            json!({"spec": {"pod": "another"}}),
            Some(WANTED),
        ),
        case("make itself", ("create", NODES, here, ""), nnf_node("nnf-nlc", here), None),
        case(
            "make another",
            ("create", NODES, here, ""),
            nnf_node("new", here),
            Some("create nothing but"),
        ),
        case(
            "make itself elsewhere",
            ("create", NODES, there, ""),
            nnf_node("nnf-nlc", there),
            Some(OWN),
        ),
        case("make its namespace", ("create", "/namespaces", "", ""), namespace(here), None),
        case(
            "make a neighbour's namespace",
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
        case("renew another's", token(other), request, Some("renews its own token only")),
    ]
}

/// Returns writes by the coordinator, which reports for every compute and may not change what is desired.
pub(super) fn of_the_coordinator() -> Vec<Case> {
    let everywhere =
        ["compute-1", "compute-2"].into_iter().flat_map(|node| on_client_mounts(node, "none"));
    everywhere
        .filter(|case| case.refused != Some(OWN) && case.ask.resource != "/namespaces")
        .collect()
}

/// Returns the same writes by another identity, which the policies do not limit.
pub(super) fn of_others() -> Vec<Case> {
    let cases = on_client_mounts("compute-1", "compute-2")
        .into_iter()
        .chain(on_rabbits("rabbit-1", "rabbit-2"));
    cases.map(|case| Case { refused: None, ..case }).collect()
}

/// Returns writes with a rabbit's token that is bound to no node, such as one copied from a Secret.
pub(super) fn of_the_unbound() -> Vec<Case> {
    let reports =
        on_client_mounts("rabbit-1", "rabbit-2").into_iter().filter(|case| case.what == "report");
    reports.map(|case| Case { refused: Some("names no node"), ..case }).collect()
}

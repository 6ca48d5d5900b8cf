//! Tables of what a rabbit may do.

use api::names::{DWS_GROUP, NNF_GROUP};
use kubeapi::Operation;
use serde_json::{Value, json};

use super::*;

/// A site with one rabbit, which has containers of the workflow `mine`.
struct Site;

impl Known for Site {
    fn is_rabbit(&self, name: &str) -> bool {
        name == "rabbit-1"
    }

    fn is_for_containers_on(&self, _: &str, wanted: &Access<'_>) -> bool {
        wanted.name == Some("mine-0")
    }
}

fn access<'a>(
    verb: Verb,
    (group, resource): (&'a str, &'a str),
    (namespace, name): (Option<&'a str>, Option<&'a str>),
) -> Access<'a> {
    Access {
        user: "node:rabbit-1,r1.hpc",
        verb,
        group,
        resource,
        is_status: false,
        namespace,
        name,
    }
}

#[test]
fn a_rabbit_reads_and_patches_in_its_own_namespace_and_reads_little_elsewhere() {
    use Verb::{Create, Delete, Get, List, Patch, Update, Watch};
    let (own, other) = (Some("rabbit-1"), Some("rabbit-2"));
    let allowed = [
        access(Watch, (NNF_GROUP, "nnfnodestorages"), (own, None)),
        access(Patch, (NNF_GROUP, "nnfnodestorages"), (own, Some("s"))),
        access(Create, (NNF_GROUP, "nnfnodes"), (own, None)),
        access(List, (DWS_GROUP, "clientmounts"), (None, None)),
        access(Watch, (NNF_GROUP, "nnfstorageprofiles"), (None, None)),
        access(Watch, (DWS_GROUP, "systemconfigurations"), (Some("default"), None)),
        access(Get, (DWS_GROUP, "servers"), (Some("default"), Some("w-0"))),
        access(Get, ("", "secrets"), (Some("default"), Some("mine-0"))),
        access(Create, ("", "namespaces"), (None, None)),
        access(Create, ("events.k8s.io", "events"), (own, None)),
    ];
    for request in allowed {
        assert_eq!(check(&request, &Site), Ok(()), "{request:?}");
    }
    let refused = [
        access(Watch, (NNF_GROUP, "nnfnodestorages"), (other, None)),
        access(List, (NNF_GROUP, "nnfnodestorages"), (None, None)),
        access(Delete, (NNF_GROUP, "nnfnodestorages"), (own, Some("s"))),
        access(Update, (NNF_GROUP, "nnfnodestorages"), (own, Some("s"))),
        access(Create, (NNF_GROUP, "nnfnodeblockstorages"), (own, None)),
        access(Patch, (DWS_GROUP, "clientmounts"), (other, Some("m"))),
        access(Watch, (DWS_GROUP, "clientmounts"), (None, None)),
        access(Patch, (NNF_GROUP, "nnfstorageprofiles"), (own, Some("p"))),
        access(List, (DWS_GROUP, "servers"), (Some("default"), None)),
        access(Get, (DWS_GROUP, "systemconfigurations"), (Some("default"), Some("x"))),
        access(List, ("", "secrets"), (Some("default"), None)),
        access(Get, ("", "secrets"), (Some("default"), Some("other-0"))),
        access(Patch, (NNF_GROUP, "nnfnodestorages"), (Some("r1.hpc"), Some("s"))),
        access(Patch, ("", "configmaps"), (own, Some("c"))),
        access(Get, (DWS_GROUP, "workflows"), (Some("default"), Some("w"))),
        access(Delete, ("", "namespaces"), (None, Some("rabbit-1"))),
    ];
    for request in refused {
        let why = check(&request, &Site).expect_err(&format!("{request:?}"));
        assert!(why.contains("the certificate of rabbit-1, r1.hpc gives no right to"), "{why}");
    }
}

#[test]
fn certificates_of_other_nodes_give_no_rights() {
    for user in ["node:compute-1", "node:rabbit-2", "node:rabbit-1x", "admin"] {
        let mut request = access(Verb::List, (DWS_GROUP, "clientmounts"), (None, None));
        request.user = user;
        let why = check(&request, &Site).unwrap_err();
        assert!(why.contains("names no such rabbit"), "{why}");
    }
}

#[test]
fn a_rabbit_changes_statuses_and_its_own_finalizers_only() {
    let old =
        json!({"metadata": {"name": "s", "finalizers": ["a"], "labels": {}}, "spec": {"count": 1}});
    let with = |path: &str, value: Value| {
        let mut new = old.clone();
        *new.pointer_mut(path).unwrap() = value;
        new
    };
    let change = |resource: &'static str, subresource, new: &Value| {
        check_write(&kubeapi::Change {
            operation: Operation::Update,
            user: "node:rabbit-1",
            group: NNF_GROUP,
            version: "v1alpha11",
            resource,
            subresource,
            old: Some(&old),
            new: Some(new),
        })
    };
    let held = with("/metadata/finalizers", json!(["a", "nnf.cray.hpe.com/nnf_node_storage"]));
    assert_eq!(change("nnfnodestorages", None, &held), Ok(()));
    let counted = with("/spec/count", json!(2));
    assert_eq!(
        change("nnfnodestorages", Some("status"), &counted),
        Ok(()),
        "the server keeps the spec"
    );
    for (resource, new, expected) in [
        ("nnfnodestorages", counted, "a node does not change the spec"),
        (
            "nnfnodestorages",
            with("/metadata/labels", json!({"x": "y"})),
            "a node does not change labels",
        ),
        (
            "nnfnodestorages",
            with("/metadata/finalizers", json!([])),
            "a node adds and removes its own finalizers only, not a",
        ),
        (
            "nnfnodes",
            held,
            "a node adds and removes its own finalizers only, not nnf.cray.hpe.com/nnf_node_storage",
        ),
        ("servers", old.clone(), "a node writes no servers"),
    ] {
        assert_eq!(change(resource, None, &new), Err(expected.to_owned()));
    }
}

#[test]
fn a_rabbit_makes_its_namespace_and_its_nnf_node_and_deletes_nothing() {
    let made = |user: &str, resource: &str, name: &str| {
        let new = json!({"metadata": {"name": name}});
        check_write(&kubeapi::Change {
            operation: Operation::Create,
            user,
            group: "",
            version: "v1",
            resource,
            subresource: None,
            old: None,
            new: Some(&new),
        })
    };
    assert_eq!(made("node:rabbit-1", "namespaces", "rabbit-1"), Ok(()));
    assert_eq!(made("node:rabbit-1", "nnfnodes", "nnf-nlc"), Ok(()));
    assert!(made("node:rabbit-1", "namespaces", "rabbit-2").is_err());
    assert!(made("node:rabbit-1", "nnfnodes", "other").is_err());
    assert_eq!(made("admin", "namespaces", "rabbit-2"), Ok(()));
}

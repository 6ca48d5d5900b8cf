//! Every identity of an install, and the rights it needs: no more and no less than these are what it has.

use anyhow::Context;
use api::names::{DWS_GROUP, NNF_GROUP};
use serde_json::json;

use crate::installed::Installed;

/// Where a right is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In one namespace.
    In(&'static str),
    /// Everywhere, or outside of namespaces.
    Everywhere,
}

/// One right.
#[derive(Debug, Clone)]
pub(crate) struct Need {
    pub(crate) verb: &'static str,
    /// `group/plural`, or `group/plural/subresource`.
    pub(crate) resource: String,
    pub(crate) place: Place,
    /// On the object of this name only.
    pub(crate) name: Option<&'static str>,
}

impl Need {
    /// Whether it lets in a request in this namespace, for this name.
    pub(crate) fn covers(&self, namespace: Option<&str>, name: Option<&str>) -> bool {
        let placed = match self.place {
            Place::In(own) => namespace == Some(own),
            Place::Everywhere => true,
        };
        placed && (self.name.is_none() || self.name == name)
    }
}

/// Somebody who asks.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) who: &'static str,
    pub(crate) token: String,
    pub(crate) needs: Vec<Need>,
}

fn need(place: &Place, verbs: &str, group: &str, plurals: &str) -> Vec<Need> {
    let each = |verb: &str| {
        let verb = crate::ask::VERBS.into_iter().find(|known| *known == verb).unwrap();
        plurals.split(' ').map(move |plural| Need {
            verb,
            resource: format!("{group}/{plural}"),
            place: place.clone(),
            name: None,
        })
    };
    verbs.split(' ').flat_map(each).collect()
}

fn named(name: &'static str, needs: Vec<Need>) -> Vec<Need> {
    needs.into_iter().map(|need| Need { name: Some(name), ..need }).collect()
}

const DWS_APPLIED: &str = "clientmounts computes servers storages systemconfigurations workflows";
const NNF_APPLIED: &str = "nnfnodestorages nnfnodeblockstorages nnflustremgts nnfstorageprofiles";

/// A compute that watches the API itself.
pub(crate) fn compute(node: &'static str) -> Vec<Need> {
    let (own, renewal) = (Place::In(node), Place::In("warren-nodes"));
    [
        need(&own, "list watch patch", DWS_GROUP, "clientmounts"),
        need(&own, "patch", DWS_GROUP, "clientmounts/status"),
        need(&Place::In("default"), "get", NNF_GROUP, "nnfstorageprofiles"),
        need(&Place::In("default"), "list watch", DWS_GROUP, "workflows computes"),
        named(node, need(&renewal, "create", "", "serviceaccounts/token")),
    ]
    .concat()
}

fn rabbit(own: &Place) -> Vec<Need> {
    let all = Place::Everywhere;
    [
        need(own, "list watch patch", DWS_GROUP, "clientmounts"),
        need(own, "list watch patch", NNF_GROUP, "nnfnodeblockstorages nnfnodestorages nnflustremgts nnfdatamovements"),
        need(own, "get", NNF_GROUP, "nnfnodeblockstorages"),
        need(own, "list watch create patch", NNF_GROUP, "nnfnodes"),
        need(own, "create", "events.k8s.io", "events"),
        need(own, "patch", DWS_GROUP, "clientmounts/status"),
        need(
            own,
            "patch",
            NNF_GROUP,
            "nnfnodeblockstorages/status nnfnodestorages/status nnfnodes/status nnflustremgts/status nnfdatamovements/status",
        ),
        need(&all, "create", "", "namespaces"),
        need(&all, "get list watch", NNF_GROUP, "nnfstorageprofiles"),
        need(&all, "get", NNF_GROUP, "nnfdatamovementprofiles"),
        need(&all, "get", DWS_GROUP, "servers"),
        named("default", need(&all, "list watch", DWS_GROUP, "systemconfigurations")),
    ]
    .concat()
}

/// A rabbit that systemd starts. Whoever lives in warren-nodes may read a profile by its name.
fn rabbit_by_systemd(node: &'static str) -> Vec<Need> {
    let renewal = need(&Place::In("warren-nodes"), "create", "", "serviceaccounts/token");
    let profile = need(&Place::In("default"), "get", NNF_GROUP, "nnfstorageprofiles");
    let jobs = need(&Place::In("default"), "list watch", DWS_GROUP, "workflows computes");
    [rabbit(&Place::In(node)), named(node, renewal), profile, jobs].concat()
}

fn coordinator() -> Vec<Need> {
    let all = Place::Everywhere;
    [
        need(&all, "get list watch patch", DWS_GROUP, "clientmounts"),
        need(&all, "patch", DWS_GROUP, "clientmounts/status"),
        need(&all, "list watch", NNF_GROUP, "nnfstorageprofiles"),
        need(&all, "list watch", DWS_GROUP, "workflows computes"),
        named("default", need(&all, "list watch", DWS_GROUP, "systemconfigurations")),
    ]
    .concat()
}

fn viewer() -> Vec<Need> {
    let (all, read) = (Place::Everywhere, "get list watch");
    [
        need(
            &all,
            read,
            DWS_GROUP,
            &format!("{DWS_APPLIED} directivebreakdowns persistentstorageinstances systemstatuses"),
        ),
        need(
            &all,
            read,
            NNF_GROUP,
            &format!("{NNF_APPLIED} nnfnodes nnfdatamovements nnfdatamovementprofiles"),
        ),
        need(&all, read, "", "namespaces"),
    ]
    .concat()
}

fn applier() -> Vec<Need> {
    let (all, write) = (Place::Everywhere, "create patch delete");
    let written =
        [need(&all, write, DWS_GROUP, DWS_APPLIED), need(&all, write, NNF_GROUP, NNF_APPLIED)];
    [viewer(), written.concat()].concat()
}

/// Everybody, on a server where all variants are installed.
pub(crate) async fn everybody(installed: &Installed) -> anyhow::Result<Vec<Identity>> {
    installed.identities("apply", &["compute-1", "compute-2"])?;
    installed.identities("apply", &["--role", "rabbit", "rabbit-2"])?;
    installed.account("default", "viewer", Some("warren-view"))?;
    installed.account("default", "applier", Some("warren-view"))?;
    installed.bind("default", "applier", "warren-apply")?;
    let mut everybody = Vec::new();
    for (who, needs) in [
        ("warren-nodes/compute-1", compute("compute-1")),
        ("warren-nodes/rabbit-2", rabbit_by_systemd("rabbit-2")),
        ("nnf-system/warren-coordinator", coordinator()),
        ("default/viewer", viewer()),
        ("default/applier", applier()),
    ] {
        let (namespace, account) = who.split_once('/').context("namespace/account")?;
        let token = installed.plane.token(namespace, account, HOUR).await?;
        everybody.push(Identity { who, token, needs });
    }
    let token = installed.pod_token("rabbit-1").await?;
    everybody.push(Identity {
        who: "nnf-system/warren-rabbit",
        token,
        needs: rabbit(&Place::Everywhere),
    });
    Ok(everybody)
}

pub(crate) const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);

/// What the role of the daemon that ours stands in for gives: `nnf-clientmount-role`, as sites have it.
const GIVEN_BY_SITES: [(&str, &str); 4] = [
    ("clientmounts", "get list watch update patch"),
    ("clientmounts/status", "get update patch"),
    ("clientmounts/finalizers", "update"),
    ("nnfstorageprofiles", "get list watch"),
];

/// The account that all computes of a site share, with that role.
pub(crate) fn account_of_sites(installed: &Installed) -> anyhow::Result<()> {
    let rules: Vec<_> = GIVEN_BY_SITES
        .iter()
        .map(|(plural, verbs)| {
            let verbs: Vec<_> = verbs.split(' ').collect();
            json!({"apiGroups": [DWS_GROUP, NNF_GROUP], "resources": [plural], "verbs": verbs})
        })
        .collect();
    installed.apply(&[json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "nnf-clientmount-role"}, "rules": rules,
    })])?;
    installed.account("nnf-system", "nnf-clientmount", Some("nnf-clientmount-role"))
}

#[test]
fn a_compute_lives_within_the_rights_that_sites_give_already() {
    let beyond: Vec<_> = compute("c")
        .into_iter()
        .filter(|need| {
            let plural = need.resource.split_once('/').unwrap().1;
            let given = GIVEN_BY_SITES.iter().find(|given| given.0 == plural);
            given.is_none_or(|given| !given.1.split(' ').any(|verb| verb == need.verb))
        })
        .map(|need| need.resource)
        .collect();
    // The sites' token never ends, so that nobody renews it. Without the two others the agent mounts as before; its verbs for
    // scripts say that they cannot tell.
    let workflows = |plural: &str| format!("{DWS_GROUP}/{plural}");
    let jobs = ["workflows", "computes"].map(workflows);
    let expected: Vec<_> = [&jobs[..], &jobs[..], &["/serviceaccounts/token".to_owned()]].concat();
    assert_eq!(beyond, expected);
}

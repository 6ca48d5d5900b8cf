//! All identities of an installation, and the rights that each needs. Each must have exactly the rights that it needs.

use anyhow::Context;
use api::names::{DWS_GROUP, NNF_GROUP};
use serde_json::json;

use crate::installed::Installed;

/// Where a right is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Only the Kubernetes namespace of this name.
    In(&'static str),
    /// All namespaces and cluster-scoped objects.
    Everywhere,
}

/// A right that an identity needs.
#[derive(Debug, Clone)]
pub(crate) struct Need {
    pub(crate) verb: &'static str,
    /// Resource as `group/plural` or `group/plural/subresource`.
    pub(crate) resource: String,
    pub(crate) place: Place,
    /// Name of the only object that the right covers; `None` for all objects.
    pub(crate) name: Option<&'static str>,
}

impl Need {
    /// Returns true if the right covers a request in this namespace, for this name.
    pub(crate) fn covers(&self, namespace: Option<&str>, name: Option<&str>) -> bool {
        let placed = match self.place {
            Place::In(own) => namespace == Some(own),
            Place::Everywhere => true,
        };
        placed && (self.name.is_none() || self.name == name)
    }
}

/// A service account, its token, and the rights that it needs.
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

fn limited_to(name: &'static str, needs: Vec<Need>) -> Vec<Need> {
    needs.into_iter().map(|need| Need { name: Some(name), ..need }).collect()
}

const DWS_APPLIED: &str = "clientmounts computes servers storages systemconfigurations workflows";
const NNF_APPLIED: &str = "nnfnodestorages nnfnodeblockstorages nnflustremgts nnfstorageprofiles nnfsystemstorages nnfdatamovementprofiles";

/// Returns the rights that a compute needs if it uses the API directly.
pub(crate) fn compute(node: &'static str) -> Vec<Need> {
    let (own, renewal) = (Place::In(node), Place::In("warren-nodes"));
    [
        need(&own, "list watch patch", DWS_GROUP, "clientmounts"),
        need(&own, "patch", DWS_GROUP, "clientmounts/status"),
        need(&Place::In("default"), "get", NNF_GROUP, "nnfstorageprofiles"),
        need(&Place::In("default"), "list watch", DWS_GROUP, "workflows computes"),
        limited_to(node, need(&renewal, "create", "", "serviceaccounts/token")),
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
        limited_to("default", need(&all, "list watch", DWS_GROUP, "systemconfigurations")),
    ]
    .concat()
}

/// Returns the rights that a rabbit needs if systemd starts its agent. Two of them are granted to all accounts in
/// warren-nodes: to read a profile by its name, and to list and watch jobs.
fn rabbit_by_systemd(node: &'static str) -> Vec<Need> {
    let renewal = need(&Place::In("warren-nodes"), "create", "", "serviceaccounts/token");
    let profile = need(&Place::In("default"), "get", NNF_GROUP, "nnfstorageprofiles");
    let jobs = need(&Place::In("default"), "list watch", DWS_GROUP, "workflows computes");
    [rabbit(&Place::In(node)), limited_to(node, renewal), profile, jobs].concat()
}

fn coordinator() -> Vec<Need> {
    let all = Place::Everywhere;
    [
        need(&all, "get list watch patch", DWS_GROUP, "clientmounts"),
        need(&all, "patch", DWS_GROUP, "clientmounts/status"),
        need(&all, "list watch", NNF_GROUP, "nnfstorageprofiles"),
        need(&all, "list watch", DWS_GROUP, "workflows computes"),
        limited_to("default", need(&all, "list watch", DWS_GROUP, "systemconfigurations")),
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
        need(&all, read, NNF_GROUP, &format!("{NNF_APPLIED} nnfnodes nnfdatamovements")),
        need(&all, read, "", "namespaces"),
    ]
    .concat()
}

fn applier() -> Vec<Need> {
    let (all, write) = (Place::Everywhere, "create patch delete");
    let written = [
        need(&all, write, DWS_GROUP, DWS_APPLIED),
        need(&all, write, NNF_GROUP, NNF_APPLIED),
        need(&all, "patch", NNF_GROUP, "nnfdatamovements"),
    ];
    [viewer(), written.concat()].concat()
}

/// Creates all identities. `installed` must have the kustomizations `direct` and `through-coordinator`.
pub(crate) async fn all_identities(installed: &Installed) -> anyhow::Result<Vec<Identity>> {
    installed.identities("apply", &["compute-1", "compute-2"])?;
    installed.identities("apply", &["--role", "rabbit", "rabbit-2"])?;
    installed.account("default", "viewer", Some("warren-view"))?;
    installed.account("default", "applier", Some("warren-view"))?;
    installed.bind("default", "applier", "warren-apply")?;
    let mut identities = Vec::new();
    for (who, needs) in [
        ("warren-nodes/compute-1", compute("compute-1")),
        ("warren-nodes/rabbit-2", rabbit_by_systemd("rabbit-2")),
        ("nnf-system/warren-coordinator", coordinator()),
        ("default/viewer", viewer()),
        ("default/applier", applier()),
    ] {
        let (namespace, account) = who.split_once('/').context("namespace/account")?;
        let token = installed.plane.token(namespace, account, HOUR).await?;
        identities.push(Identity { who, token, needs });
    }
    let token = installed.pod_token("rabbit-1").await?;
    identities.push(Identity {
        who: "nnf-system/warren-rabbit",
        token,
        needs: rabbit(&Place::Everywhere),
    });
    Ok(identities)
}

pub(crate) const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);

/// Plural names and verbs of `nnf-clientmount-role`, the role of the sites' Go daemon.
const GIVEN_BY_SITES: [(&str, &str); 4] = [
    ("clientmounts", "get list watch update patch"),
    ("clientmounts/status", "get update patch"),
    ("clientmounts/finalizers", "update"),
    ("nnfstorageprofiles", "get list watch"),
];

/// Creates the account that all computes of a site share, with the role of the sites' Go daemon.
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
fn a_compute_needs_few_rights_beyond_those_that_sites_grant_already() {
    let beyond: Vec<_> = compute("c")
        .into_iter()
        .filter(|need| {
            let plural = need.resource.split_once('/').unwrap().1;
            let site = GIVEN_BY_SITES.iter().find(|site| site.0 == plural);
            site.is_none_or(|site| !site.1.split(' ').any(|verb| verb == need.verb))
        })
        .map(|need| need.resource)
        .collect();
    // An agent can do without these rights. It need not renew the sites' token, which never expires. Without the rights
    // on workflows and computes the agent mounts as usual, but the commands `clientmount-agent mount` and `unmount`,
    // which scripts call, report that they cannot read the job.
    let workflows = |plural: &str| format!("{DWS_GROUP}/{plural}");
    let jobs = ["workflows", "computes"].map(workflows);
    let expected: Vec<_> = [&jobs[..], &jobs[..], &["/serviceaccounts/token".to_owned()]].concat();
    assert_eq!(beyond, expected);
}

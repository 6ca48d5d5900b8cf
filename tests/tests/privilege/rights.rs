//! Tests every verb on every resource for each identity, in two ways: sends each request, and reads the server's
//! list of granted rights.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use k8s_openapi::api::authorization::v1::{
    ResourceRule, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec,
};
use kube::{Api, Client, api::PostParams};

use crate::{
    ask::{Ask, VERBS},
    identities::{HOUR, Identity, all_identities},
    installed::Installed,
};

const NAMESPACES: [&str; 7] =
    ["compute-1", "compute-2", "rabbit-1", "rabbit-2", "default", "warren-nodes", "nnf-system"];

const IN_NAMESPACES: [&str; 32] = [
    "dataworkflowservices.github.io/workflows",
    "dataworkflowservices.github.io/computes",
    "dataworkflowservices.github.io/clientmounts",
    "dataworkflowservices.github.io/clientmounts/status",
    "dataworkflowservices.github.io/servers",
    "dataworkflowservices.github.io/storages",
    "dataworkflowservices.github.io/storages/status",
    "dataworkflowservices.github.io/systemconfigurations",
    "dataworkflowservices.github.io/systemconfigurations/status",
    "nnf.cray.hpe.com/nnfnodes",
    "nnf.cray.hpe.com/nnfnodes/status",
    "nnf.cray.hpe.com/nnfnodestorages",
    "nnf.cray.hpe.com/nnfnodestorages/status",
    "nnf.cray.hpe.com/nnfnodeblockstorages",
    "nnf.cray.hpe.com/nnfnodeblockstorages/status",
    "nnf.cray.hpe.com/nnflustremgts",
    "nnf.cray.hpe.com/nnflustremgts/status",
    "nnf.cray.hpe.com/nnfstorageprofiles",
    "nnf.cray.hpe.com/nnfdatamovements",
    "nnf.cray.hpe.com/nnfdatamovements/status",
    "nnf.cray.hpe.com/nnfdatamovementprofiles",
    "/pods",
    "/secrets",
    "/configmaps",
    "/services",
    "/events",
    "/serviceaccounts",
    "/serviceaccounts/token",
    "apps/daemonsets",
    "coordination.k8s.io/leases",
    "rbac.authorization.k8s.io/roles",
    "rbac.authorization.k8s.io/rolebindings",
];

const IN_NONE: [&str; 5] = [
    "/namespaces",
    "/nodes",
    "rbac.authorization.k8s.io/clusterroles",
    "rbac.authorization.k8s.io/clusterrolebindings",
    "admissionregistration.k8s.io/validatingadmissionpolicies",
];

/// Returns the object names to which rights on `resource` are limited, and a name that no such right covers.
fn names(resource: &str) -> &'static [&'static str] {
    match resource {
        "dataworkflowservices.github.io/systemconfigurations" => &["default", "other"],
        "/serviceaccounts/token" => &["compute-1", "rabbit-2", "other"],
        _ => &["other"],
    }
}

/// Returns one request for each verb, resource, namespace and name.
fn requests() -> Vec<Ask> {
    let mut requests = Vec::new();
    let places = NAMESPACES.map(Some);
    let resources = IN_NAMESPACES.map(|resource| (resource, &places[..]));
    let cluster_wide = IN_NONE.map(|resource| (resource, &[None][..]));
    for (resource, places) in resources.into_iter().chain(cluster_wide) {
        // Skips lists, watches and collective deletions of subresources, which do not exist.
        let subresource = resource.matches('/').count() > 1;
        for verb in VERBS {
            let many = matches!(verb, "list" | "watch");
            let nameless = many || verb == "deletecollection" || (verb == "create" && !subresource);
            if subresource && (many || verb == "deletecollection") {
                continue;
            }
            let mut called: Vec<Option<String>> = Vec::new();
            if nameless {
                called.push(None);
            }
            if !nameless || many {
                called.extend(names(resource).iter().map(|&name| Some(name.to_owned())));
            }
            for (&place, name) in
                places.iter().flat_map(|place| called.iter().map(move |name| (place, name)))
            {
                let namespace = place.map(str::to_owned);
                requests.push(Ask { verb, resource, namespace, name: name.clone() });
            }
        }
    }
    requests
}

fn is_needed(identity: &Identity, ask: &Ask) -> bool {
    let fits =
        |need: &&crate::identities::Need| need.verb == ask.verb && need.resource == ask.resource;
    identity
        .needs
        .iter()
        .filter(fits)
        .any(|need| need.covers(ask.namespace.as_deref(), ask.name.as_deref()))
}

#[tokio::test]
async fn each_identity_has_the_rights_that_its_program_needs_and_no_others() -> anyhow::Result<()> {
    let installed =
        Installed::start("direct", &["compute-1", "compute-2", "rabbit-1", "rabbit-2"])?;
    let coordinators = crate::installed::tree("packaging/kubernetes/through-coordinator");
    installed.kubectl(&["apply", "--server-side", "-k", &coordinators.display().to_string()])?;
    let identities = all_identities(&installed).await?;
    installed.account("default", "nobody", None)?;
    let nobody = installed.plane.token("default", "nobody", HOUR).await?;
    let nobody = installed.client(&nobody).await?;
    let mut wrong = Vec::new();
    for identity in &identities {
        let client = installed.client(&identity.token).await?;
        for namespace in NAMESPACES {
            wrong.extend(differences(
                identity,
                namespace,
                &granted(&client, namespace).await?,
                &granted(&nobody, namespace).await?,
            ));
        }
        for ask in requests() {
            let is_allowed = ask.is_allowed(&client).await?;
            if is_allowed != is_needed(identity, &ask) {
                let word = if is_allowed { "can" } else { "cannot" };
                wrong.push(format!("{} {word} {ask:?}", identity.who));
            }
        }
    }
    ensure!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

/// Rights as text: verb, resource, and the object name to which the right is limited.
type Rights = BTreeSet<String>;

fn right(verb: &str, resource: &str, name: Option<&str>) -> String {
    format!("{verb} {resource} {}", name.unwrap_or("*"))
}

async fn granted(client: &Client, namespace: &str) -> anyhow::Result<Rights> {
    let spec = SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) };
    let review = SelfSubjectRulesReview { spec, ..SelfSubjectRulesReview::default() };
    let review = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    let status = review.status.context("a review without answer")?;
    ensure!(!status.incomplete, "the server's list of rights is incomplete: {status:?}");
    Ok(status.resource_rules.iter().flat_map(flatten).collect())
}

fn flatten(rule: &ResourceRule) -> Rights {
    let names = rule.resource_names.clone().unwrap_or_default();
    let names: Vec<_> = if names.is_empty() {
        vec![None]
    } else {
        names.iter().map(|name| Some(name.as_str())).collect()
    };
    let mut rights = Rights::new();
    for verb in &rule.verbs {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                let resource = format!("{group}/{resource}");
                rights.extend(names.iter().map(|name| right(verb, &resource, *name)));
            }
        }
    }
    rights
}

/// Compares the rights of an identity with the rights that it needs. Leaves out rights that every account has.
fn differences(
    identity: &Identity,
    namespace: &str,
    granted: &Rights,
    to_all: &Rights,
) -> Vec<String> {
    let needed: Rights = identity
        .needs
        .iter()
        .filter(|need| need.covers(Some(namespace), need.name))
        .map(|need| right(need.verb, &need.resource, need.name))
        .collect();
    let own: Rights = granted.difference(to_all).cloned().collect();
    let describe =
        |what: &str, right: &String| format!("{}: {what} in {namespace}: {right}", identity.who);
    let superfluous =
        own.difference(&needed).map(|right| describe("granted and not needed", right));
    let missing = needed.difference(&own).map(|right| describe("needed and not granted", right));
    superfluous.chain(missing).collect()
}

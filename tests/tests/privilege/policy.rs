//! Tests of the admission policies alone: in these tests RBAC grants the identities all rights, so that only
//! the policies refuse requests.

mod cases;
pub(crate) mod objects;

use std::fmt::Write;

use anyhow::ensure;
use kube::Client;
use serde_json::{Value, json};
use tests::cluster::PATIENCE;

use crate::{ask::Answer, identities::HOUR, installed::Installed};
use cases::{
    Case, of_others, of_the_coordinator, of_the_unbound, on_client_mounts, on_rabbits, on_tokens,
};
use objects::objects;

/// Grants, by RBAC, all rights on the policies' kinds to all identities of this test.
fn grant_everything(installed: &Installed) -> anyhow::Result<()> {
    let rules = json!([
        {"apiGroups": ["dataworkflowservices.github.io", "nnf.cray.hpe.com", "warren.nnf.cray.hpe.com"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["namespaces", "serviceaccounts/token"], "verbs": ["*"]},
    ]);
    installed.apply(&[json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "wide-open"}, "rules": rules,
    })])?;
    for (namespace, account) in [
        ("warren-nodes", "compute-1"),
        ("warren-nodes", "rabbit-2"),
        ("nnf-system", "warren-rabbit"),
        ("nnf-system", "warren-coordinator"),
        ("nnf-system", "central"),
    ] {
        installed.bind(namespace, account, "wide-open")?;
    }
    Ok(())
}

#[tokio::test]
async fn policies_limit_each_identity_to_its_own_objects_even_if_rbac_does_not()
-> anyhow::Result<()> {
    let nodes = ["compute-1", "compute-2", "rabbit-1", "rabbit-2"];
    let installed = Installed::start("through-coordinator", &nodes)?;
    let direct = crate::installed::tree("packaging/kubernetes/direct").display().to_string();
    installed.kubectl(&["apply", "--server-side", "-k", &direct])?;
    installed.identities("apply", &["compute-1", "compute-2"])?;
    installed.identities("apply", &["--role=rabbit", "rabbit-2"])?;
    installed.account("nnf-system", "central", None)?;
    grant_everything(&installed)?;
    installed.apply(&objects())?;

    let token = async |namespace, account| installed.plane.token(namespace, account, HOUR).await;
    let both = |here, there| concat([on_client_mounts(here, there), on_rabbits(here, there)]);
    let compute = [on_client_mounts("compute-1", "compute-2"), on_tokens("compute-1", "compute-2")];
    let table = [
        ("compute-1", token("warren-nodes", "compute-1").await?, concat(compute)),
        (
            "rabbit-1 in its pod",
            installed.pod_token("rabbit-1").await?,
            both("rabbit-1", "rabbit-2"),
        ),
        (
            "rabbit-2 by systemd",
            token("warren-nodes", "rabbit-2").await?,
            both("rabbit-2", "rabbit-1"),
        ),
        ("a rabbit unbound", token("nnf-system", "warren-rabbit").await?, of_the_unbound()),
        ("the coordinator", token("nnf-system", "warren-coordinator").await?, of_the_coordinator()),
        ("a central controller", token("nnf-system", "central").await?, of_others()),
    ];
    until_in_force(&installed.client(&table[0].1).await?).await?;
    let mut wrong = String::new();
    for (who, token, cases) in &table {
        let client = installed.client(token).await?;
        for case in cases {
            let answer = case.ask.send(&client, &case.body).await?;
            if !is_as_expected(case, &answer) {
                writeln!(wrong, "{who}: {} {:?}: {answer:?}", case.what, case.ask)?;
            }
        }
    }
    ensure!(wrong.is_empty(), "\n{wrong}");
    Ok(())
}

fn concat<const N: usize>(lists: [Vec<Case>; N]) -> Vec<Case> {
    lists.into_iter().flatten().collect()
}

/// Compares an answer with the case. An answer of 409 (the object exists) means that admission
/// has admitted the request.
fn is_as_expected(case: &Case, answer: &Answer) -> bool {
    match case.refused {
        None => matches!(answer.code, 200 | 409),
        Some(why) => {
            answer.code == 403
                && answer.message.contains("ValidatingAdmissionPolicy")
                && answer.message.contains(why)
        }
    }
}

/// Waits until the policies are in force, about a second after their creation.
async fn until_in_force(client: &Client) -> anyhow::Result<()> {
    let probes = on_client_mounts("compute-1", "compute-2");
    let find = |what| probes.iter().find(move |case| case.what == what);
    let waited = async {
        for probe in [find("report a status in another namespace"), find("change the spec")]
            .into_iter()
            .flatten()
        {
            while probe.ask.send(client, &probe.body).await?.code == 200 {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, waited).await?
}

#[tokio::test]
async fn the_servers_type_check_of_the_policies_has_no_warning() -> anyhow::Result<()> {
    let installed = Installed::start("direct", &[])?;
    let checked = tests::program::until("the policies to be checked", PATIENCE, || {
        let text = installed.kubectl(&["get", "validatingadmissionpolicies", "-o", "json"])?;
        let list: Value = serde_json::from_str(&text)?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let done =
            |item: &Value| item["status"]["observedGeneration"] == item["metadata"]["generation"];
        ensure!(items.len() == 2 && items.iter().all(done), "not yet: {text}");
        Ok(items)
    })?;
    for policy in checked {
        let warnings = &policy["status"]["typeChecking"]["expressionWarnings"];
        ensure!(warnings.is_null(), "{}: {warnings:#}", policy["metadata"]["name"]);
    }
    Ok(())
}

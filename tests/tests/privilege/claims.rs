//! Runs that coordinators claim, on a real API server: the CRD's rules and the policy refuse what `containers::claim::rules` refuses.

mod vectors;

use anyhow::ensure;
use api::ContainerRun;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tests::claims::{Coordinator, NAMESPACE, contested, refusal, renewed};

use crate::{identities::HOUR, installed::Installed};

const SYSTEM: &str = "nnf-system";
const ACCOUNT: &str = "warren-coordinator";

/// A server with the rights and the policy of claims, and a coordinator's account.
fn installed() -> anyhow::Result<Installed> {
    let installed = Installed::bare()?;
    installed.account(SYSTEM, ACCOUNT, None)?;
    Ok(installed)
}

/// A process of a coordinator in a pod of its own: its client, and its pod's uid.
async fn in_pod(installed: &Installed, pod: &str) -> anyhow::Result<(Client, String)> {
    let (token, uid) = installed.bound_token(SYSTEM, ACCOUNT, pod, "node").await?;
    Ok((installed.client_as(pod, &token).await?, uid))
}

#[tokio::test]
async fn of_two_coordinators_one_claims_and_the_server_refuses_the_other() -> anyhow::Result<()> {
    let installed = installed()?;
    installed.apply_folder("packaging/kubernetes/claims")?;
    let administrator = installed.plane.client().await?;
    let [(one, pod1), (two, pod2)] =
        [in_pod(&installed, "c1").await?, in_pod(&installed, "c2").await?];
    vectors::in_force(&administrator, &one).await?;
    let c1 = Coordinator::new(one.clone(), &pod1, "1");
    let c2 = Coordinator::new(two.clone(), &pod2, "1");
    contested(&administrator, &c1, &c2).await?;
    renewed(&c1, &c2).await?;
    s3_1(&administrator, &one, &two, &pod1).await?;
    s3_3(&installed).await?;
    // Each right was used, and none was missing.
    let audit = installed.plane.audit()?;
    let user = format!("system:serviceaccount:{SYSTEM}:{ACCOUNT}");
    let of_ours = |event: &&control_plane::AuditEvent| event.user == user;
    // The rights of an account count a moment after they were given.
    let in_earnest = |event: &&control_plane::AuditEvent| event.name != "probe";
    let forbidden = audit.iter().filter(of_ours).filter(in_earnest);
    let forbidden: Vec<_> = forbidden.filter(|event| event.code == 403).collect();
    ensure!(forbidden.is_empty(), "{forbidden:?}");
    for (verb, resource) in [
        ("get", "containerruns"),
        ("patch", "containerruns/status"),
        ("list", "leases"),
        ("create", "leases"),
        ("patch", "leases"),
    ] {
        let is_used = |event: &control_plane::AuditEvent| {
            event.verb == verb && event.resource.ends_with(resource)
        };
        ensure!(audit.iter().filter(of_ours).any(is_used), "{verb} {resource} is never used");
    }
    Ok(())
}

/// S3.1: a token says of which pod it is, whatever is written.
async fn s3_1(
    administrator: &Client,
    one: &Client,
    two: &Client,
    pod1: &str,
) -> anyhow::Result<()> {
    let runs: Api<ContainerRun> = Api::namespaced(administrator.clone(), NAMESPACE);
    let run = ContainerRun::new("stolen", serde_json::from_value(json!({}))?);
    let run = runs.create(&PostParams::default(), &run).await?;
    let holder = format!("{pod1}/1");
    let claimed = Patch::Merge(json!({"status": {
        "claim": {"holder": holder, "epoch": 1}, "writer": {"holder": holder, "epoch": 1, "seq": 1},
        "phase": "Claimed", "attempt": 1,
    }}));
    let why = refusal(two, &run, &claimed).await?;
    ensure!(why.contains("V1"), "{why}");
    let runs: Api<ContainerRun> = Api::namespaced(one.clone(), NAMESPACE);
    runs.patch_status("stolen", &PatchParams::default(), &claimed).await?;
    Ok(())
}

/// S3.3: a coordinator of another namespace has no rights here.
async fn s3_3(installed: &Installed) -> anyhow::Result<()> {
    installed.kubectl(&["create", "namespace", "elsewhere"])?;
    installed.account("elsewhere", ACCOUNT, None)?;
    let token = installed.plane.token("elsewhere", ACCOUNT, HOUR).await?;
    let client = installed.client_as("elsewhere", &token).await?;
    let runs: Api<ContainerRun> = Api::namespaced(client, NAMESPACE);
    let nothing: Patch<serde_json::Value> = Patch::Merge(json!({}));
    let answers = [
        runs.get("stolen").await.map(drop),
        runs.patch_status("stolen", &PatchParams::default(), &nothing).await.map(drop),
    ];
    for answer in answers {
        let is_forbidden = matches!(&answer, Err(kube::Error::Api(status)) if status.code == 403);
        ensure!(is_forbidden, "{answer:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_server_and_the_embedded_rules_refuse_the_same() -> anyhow::Result<()> {
    let installed = installed()?;
    let administrator = installed.plane.client().await?;
    let (one, pod1) = in_pod(&installed, "c1").await?;
    let (two, pod2) = in_pod(&installed, "c2").await?;
    let unbound = installed.plane.token(SYSTEM, ACCOUNT, HOUR).await?;
    let unbound = installed.client_as("unbound", &unbound).await?;
    let callers = vectors::Callers { administrator, pods: [(one, pod1), (two, pod2)], unbound };
    // Without rules any status can be there before.
    vectors::with_rules(&installed, false)?;
    let mut cases = vectors::golden(&callers)?;
    cases.extend(vectors::every_change(&callers));
    vectors::store(&callers, &cases).await?;
    vectors::with_rules(&installed, true)?;
    installed.apply_folder("packaging/kubernetes/claims")?;
    vectors::in_force(&callers.administrator, &callers.pods[0].0).await?;
    vectors::judge(&callers, &cases).await?;
    let text =
        installed.kubectl(&["get", "validatingadmissionpolicy", "warren-claims", "-o", "json"])?;
    let policy: serde_json::Value = serde_json::from_str(&text)?;
    let warnings = &policy["status"]["typeChecking"]["expressionWarnings"];
    ensure!(warnings.is_null(), "{warnings:#}");
    Ok(())
}

//! Tests of claims of container runs (the right of one coordinator to work on a run) on a real API server.
//! The CRD's rules and the admission policy must refuse the same changes as `containers::claim::rules`
//! refuses on the embedded API.

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

/// Starts a server, and creates a coordinator's service account.
fn start_server() -> anyhow::Result<Installed> {
    let installed = Installed::bare()?;
    installed.account(SYSTEM, ACCOUNT, None)?;
    Ok(installed)
}

/// Creates a pod of the coordinator. Returns a client with the pod's token, and the pod's UID.
async fn client_of_pod(installed: &Installed, pod: &str) -> anyhow::Result<(Client, String)> {
    let (token, uid) = installed.bound_token(SYSTEM, ACCOUNT, pod, "node").await?;
    Ok((installed.client_as(pod, &token).await?, uid))
}

#[tokio::test]
async fn one_of_two_coordinators_claims_a_run_and_the_server_refuses_the_other()
-> anyhow::Result<()> {
    let installed = start_server()?;
    installed.apply_folder("packaging/kubernetes/claims")?;
    let administrator = installed.plane.client().await?;
    let [(one, pod1), (two, pod2)] =
        [client_of_pod(&installed, "c1").await?, client_of_pod(&installed, "c2").await?];
    vectors::until_in_force(&administrator, &one).await?;
    let c1 = Coordinator::new(one.clone(), &pod1, "1");
    let c2 = Coordinator::new(two.clone(), &pod2, "1");
    contested(&administrator, &c1, &c2).await?;
    renewed(&c1, &c2).await?;
    foreign_claim_is_refused_by_token(&administrator, &one, &two, &pod1).await?;
    other_namespace_is_refused(&installed).await?;
    // Checks that the coordinators used each of their rights, and lacked none.
    let audit = installed.plane.audit()?;
    let user = format!("system:serviceaccount:{SYSTEM}:{ACCOUNT}");
    let is_of_coordinator = |event: &&control_plane::AuditEvent| event.user == user;
    // Leaves out requests for `probe`. They may be refused, since an account's rights take effect a moment after they
    // were granted.
    let is_no_probe = |event: &&control_plane::AuditEvent| event.name != "probe";
    let forbidden = audit.iter().filter(is_of_coordinator).filter(is_no_probe);
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
        ensure!(
            audit.iter().filter(is_of_coordinator).any(is_used),
            "{verb} {resource} is never used"
        );
    }
    Ok(())
}

/// Scenario S3.1 of `crates/containers/src/claim/scenarios.rs`: the policy takes the pod that sends a request from the
/// request's token, not from the holder that the object names.
async fn foreign_claim_is_refused_by_token(
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

/// Scenario S3.3 of `crates/containers/src/claim/scenarios.rs`: a coordinator in another Kubernetes namespace has no
/// rights on the runs.
async fn other_namespace_is_refused(installed: &Installed) -> anyhow::Result<()> {
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
async fn the_server_and_the_embedded_api_refuse_the_same_changes() -> anyhow::Result<()> {
    let installed = start_server()?;
    let administrator = installed.plane.client().await?;
    let (one, pod1) = client_of_pod(&installed, "c1").await?;
    let (two, pod2) = client_of_pod(&installed, "c2").await?;
    let unbound = installed.plane.token(SYSTEM, ACCOUNT, HOUR).await?;
    let unbound = installed.client_as("unbound", &unbound).await?;
    let callers = vectors::Callers { administrator, pods: [(one, pod1), (two, pod2)], unbound };
    // Installs the CRD without rules for a time: the old statuses of the cases must be stored first, and the rules may
    // refuse them.
    vectors::install_crd(&installed, false)?;
    let mut cases = vectors::golden(&callers)?;
    cases.extend(vectors::every_change(&callers));
    vectors::store(&callers, &cases).await?;
    vectors::install_crd(&installed, true)?;
    installed.apply_folder("packaging/kubernetes/claims")?;
    vectors::until_in_force(&callers.administrator, &callers.pods[0].0).await?;
    vectors::judge(&callers, &cases).await?;
    let text =
        installed.kubectl(&["get", "validatingadmissionpolicy", "warren-claims", "-o", "json"])?;
    let policy: serde_json::Value = serde_json::from_str(&text)?;
    let warnings = &policy["status"]["typeChecking"]["expressionWarnings"];
    ensure!(warnings.is_null(), "{warnings:#}");
    Ok(())
}

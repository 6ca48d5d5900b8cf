//! Tests of admission, which fills in fields and refuses objects before they are stored. The coordinator decides;
//! its embedded API calls it directly, and a cluster's API server calls it over HTTPS. A cluster's admission
//! policies refuse objects too.

mod changes;
mod sites;
mod workflows;

use std::path::Path;

use anyhow::{Context, ensure};
use control_plane::client;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tests::{
    api_server::ApiServer,
    cluster::PATIENCE,
    gate,
    program::{Program, binary, command},
    webhook::Webhook,
};

fn configuration(compute: &str) -> Value {
    json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "SystemConfiguration",
        "metadata": {"name": "default", "namespace": "default"},
        "spec": {"externalComputeNodes": [], "storageNodes": [
            {"type": "Rabbit", "name": "rabbit-1", "computesAccess": [{"name": compute, "index": 0}]}
        ]}
    })
}

fn configurations(client: Client) -> Api<DynamicObject> {
    let kind =
        GroupVersionKind::gvk("dataworkflowservices.github.io", "v1alpha7", "SystemConfiguration");
    Api::namespaced_with(client, "default", &ApiResource::from_gvk(&kind))
}

/// Creates the SystemConfiguration with `dryRun` and returns the server's answer.
async fn dry_run(api: &Api<DynamicObject>, compute: &str) -> anyhow::Result<kube::Result<()>> {
    let object = serde_json::from_value(configuration(compute))?;
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    Ok(api.create(&parameters, &object).await.map(drop))
}

fn expect_refusal<T>(answer: kube::Result<T>) -> anyhow::Result<()> {
    let Err(kube::Error::Api(status)) = answer else {
        anyhow::bail!("the SystemConfiguration was not refused")
    };
    let why = &status.message;
    ensure!(why.contains("spec.storageNodes[0].computesAccess[0].name"), "{why}");
    ensure!(why.contains("admission webhook") && status.code == 422, "{status:?}");
    Ok(())
}

/// Checks that a bad creation and a bad change are refused, and that good ones are admitted.
async fn check_admission(api: Api<DynamicObject>) -> anyhow::Result<()> {
    expect_refusal(dry_run(&api, "compute 1").await?)?;
    let good = serde_json::from_value(configuration("compute-1"))?;
    api.create(&PostParams::default(), &good).await.context("create a good SystemConfiguration")?;
    let bad = Patch::Merge(json!({"spec": configuration("compute 1")["spec"]}));
    expect_refusal(api.patch("default", &PatchParams::default(), &bad).await)?;
    let good = Patch::Merge(json!({"spec": configuration("compute-2")["spec"]}));
    api.patch("default", &PatchParams::default(), &good)
        .await
        .context("change the SystemConfiguration")?;
    Ok(())
}

fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Runtime::new()?.block_on(work)
}

#[test]
fn the_embedded_api_calls_the_coordinators_check_of_a_system_configuration() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let at = directory.path();
    let _coordinator = Program::coordinator(at)?;
    let kubeconfig = at.join("data/kubeconfig");
    block_on(async {
        until_ok("the API", async || {
            let api = configurations(client(&kubeconfig).await?);
            dry_run(&api, "compute-1").await?.context("the API refused a good SystemConfiguration")
        })
        .await?;
        check_admission(configurations(client(&kubeconfig).await?)).await
    })
}

#[test]
fn a_cluster_calls_the_coordinators_check_of_a_system_configuration_over_https()
-> anyhow::Result<()> {
    if !gate::real_server() {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let at = directory.path();
    let (server, webhook) = cluster(at)?;
    let _coordinator = on_cluster(at, &server, &webhook)?;
    block_on(async {
        until_ok("the API server to use the webhook", async || {
            let api = configurations(client(&server.kubeconfig()).await?);
            expect_refusal(dry_run(&api, "compute 1").await?)
        })
        .await?;
        check_admission(configurations(client(&server.kubeconfig()).await?)).await
    })
}

/// Starts a real API server with our CRDs and the packaged webhooks and policies. Starts no coordinator.
fn cluster(at: &Path) -> anyhow::Result<(ApiServer, Webhook)> {
    let server = ApiServer::real(&at.join("server"))?;
    server.install_crds(|_| ())?;
    let webhook = Webhook::new(at)?;
    for object in webhook.packaged()? {
        server.create(&object)?;
    }
    Ok((server, webhook))
}

fn on_cluster(at: &Path, server: &ApiServer, webhook: &Webhook) -> anyhow::Result<Program> {
    let mut argv = command(binary("coordinator")?);
    argv.arg("--workflows").arg("--kubeconfig").arg(server.kubeconfig());
    argv.arg("--socket").arg(at.join("coordinator.sock"));
    argv.args(webhook.arguments());
    Program::start("coordinator", &argv, at)
}

async fn until_ok(
    what: &str,
    mut look: impl AsyncFnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let looked = async {
        while look().await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looked).await.with_context(|| format!("wait: {what}"))
}

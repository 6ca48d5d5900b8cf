//! Tests an API that refuses requests, does not answer, or lacks a kind: the agent undoes nothing,
//! and recovers by itself.

use api::{ClientMount, NnfNodeBlockStorage, NnfNodeStorage, NnfStorageProfile};
use controller::Object as Kind;
use http::Method;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    api::PostParams,
    client::Body,
    runtime::{conditions::is_crd_established, wait::await_condition},
};
use serde_json::{Value, json};

use crate::bench::{
    Bench, MOUNT, NAME, RABBIT, Refused, block_ready, block_storage, client_mount, in_tree,
    mount_ready, node_storage, profile, retry_until_served, storage_ready, strict_crds, system,
};

/// Returns a predicate for requests about objects of this kind.
fn is_about(plural: &'static str) -> impl Fn(&http::Request<Body>) -> bool {
    move |request| request.uri().path().contains(&format!("/{plural}"))
}

async fn job(bench: &Bench) {
    bench.file_systems(1).await;
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &["compute-01"])).await;
    bench.until(MOUNT, "mounted", mount_ready).await;
}

/// Creates a second ClientMount of the same file system, and waits until it is mounted.
async fn another_mount(bench: &Bench) {
    let mut another = client_mount("another", &["compute-01"]);
    another["spec"]["mounts"][0]["mountPath"] = json!(in_tree("another"));
    bench.make::<ClientMount>(RABBIT, another).await;
    bench.until("another", "mounted", mount_ready).await;
}

/// Stops the agent of a mounted job, makes the API refuse the agent's requests in the given way, starts the agent, and
/// lets its requests reach the API again.
async fn check_recovery_from_refusal(
    refusal: fn() -> Refused,
    matches: impl Fn(&http::Request<Body>) -> bool + Send + Sync + 'static,
) {
    let mut bench = Bench::new().await;
    job(&bench).await;
    bench.stop().await;
    let before = (bench.requests().len(), *bench.unmounted.borrow());
    bench.refuse(move |request| matches(request).then(refusal));
    bench.start();
    // After 9 requests every watch has failed at least once, and one of the watches has retried.
    bench.until_requested(before.0 + 9, |_, _| true).await;
    assert_eq!(*bench.unmounted.borrow(), before.1, "what is mounted stays mounted");
    let wrote =
        bench.requests().into_iter().skip(before.0).filter(|(method, _)| method != Method::GET);
    assert_eq!(wrote.count(), 0, "nothing is concluded before everything was listed");
    bench.admit();
    another_mount(&bench).await;
    assert_eq!(*bench.unmounted.borrow(), before.1);
}

#[tokio::test]
async fn an_api_that_forbids_a_kind_stops_the_work_and_changes_nothing() {
    let refusal = || Refused::Status(403, "nnfnodestorages is forbidden");
    check_recovery_from_refusal(refusal, is_about("nnfnodestorages")).await;
}

#[tokio::test]
async fn rejected_credentials_stop_the_work_and_change_nothing() {
    check_recovery_from_refusal(|| Refused::Status(401, "Unauthorized"), |_| true).await;
}

#[tokio::test]
async fn an_unreachable_api_stops_the_work_and_changes_nothing() {
    check_recovery_from_refusal(|| Refused::Away, |_| true).await;
}

#[tokio::test]
async fn an_overloaded_api_stops_the_work_and_changes_nothing() {
    check_recovery_from_refusal(|| Refused::Status(429, "slow down"), |_| true).await;
}

#[tokio::test]
async fn an_api_that_forbids_a_kind_without_objects_on_this_rabbit_does_not_stop_the_work() {
    let mut bench = Bench::bare().await;
    bench.site().await;
    bench.refuse(|request| {
        is_about("nnflustremgts")(request).then_some(Refused::Status(403, "forbidden"))
    });
    bench.start();
    job(&bench).await;
}

#[tokio::test]
async fn writes_refused_for_a_while_are_repeated() {
    let bench = Bench::new().await;
    bench.file_systems(1).await;
    bench.refuse(|request| {
        let write = request.method() != Method::GET;
        (write && is_about("clientmounts")(request)).then_some(Refused::Status(403, "cannot patch"))
    });
    let before = bench.requests().len();
    let mounts = *bench.mounted.borrow();
    bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &["compute-01"])).await;
    bench
        .until_requested(2, |method, path| *method == Method::PATCH && path.ends_with(MOUNT))
        .await;
    assert_eq!(*bench.mounted.borrow(), mounts, "nothing is mounted without a finalizer");
    assert!(bench.requests().len() > before);
    bench.admit();
    bench.until(MOUNT, "mounted", mount_ready).await;
}

/// Answers writes to `path` with 404 until the agent has tried a write, then lets writes reach the API.
async fn answer_404_once(bench: &Bench, path: String, write: impl AsyncFnOnce()) {
    let is_write = move |method: &Method, at: &str| *method == Method::PATCH && at.ends_with(&path);
    let refused = is_write.clone();
    let tries = bench.requests().iter().filter(|(method, at)| is_write(method, at)).count();
    bench.refuse(move |request| {
        let refused = refused(request.method(), request.uri().path());
        refused.then_some(Refused::Status(404, "404 page not found"))
    });
    write().await;
    bench.until_requested(tries + 1, is_write).await;
    bench.admit();
}

#[tokio::test]
async fn a_write_answered_with_404_is_repeated() {
    let bench = Bench::new().await;
    bench.file_systems(1).await;
    answer_404_once(&bench, format!("/{MOUNT}/status"), async || {
        bench.make::<ClientMount>(RABBIT, client_mount(MOUNT, &["compute-01"])).await;
    })
    .await;
    bench.until(MOUNT, "mounted", mount_ready).await;
    answer_404_once(&bench, format!("/{MOUNT}"), async || {
        bench.delete::<ClientMount>(MOUNT).await;
    })
    .await;
    bench.until_gone::<ClientMount>(MOUNT).await;
    answer_404_once(&bench, format!("/nnfnodestorages/{NAME}"), async || {
        bench.delete::<NnfNodeStorage>(NAME).await;
    })
    .await;
    bench.until_gone::<NnfNodeStorage>(NAME).await;
}

fn crd_of<K: Kind>() -> Value {
    let name = format!("{}.{}", K::plural(&()), K::group(&()));
    let all = strict_crds();
    all.into_iter().find(|crd| crd["metadata"]["name"] == name.as_str()).unwrap()
}

async fn install(bench: &Bench, crd: Value) {
    let crd: CustomResourceDefinition = serde_json::from_value(crd).unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(bench.client.clone());
    definitions.create(&PostParams::default(), &crd).await.unwrap();
    await_condition(definitions, &crd.name_any(), is_crd_established()).await.unwrap();
}

/// Starts the agent at a site whose API lacks the kind `K`; then installs the kind.
async fn start_without<K: Kind>() {
    let missing = crd_of::<K>();
    let mut crds = strict_crds();
    crds.retain(|crd| *crd != missing);
    let mut bench = Bench::with_crds(crds).await;
    bench.start();
    let list = format!("/{}", K::plural(&()));
    // The second list request shows that the agent survived the failure of the first.
    bench.until_requested(2, |_, path| path.ends_with(&list)).await;
    assert!(!bench.status.is_ready(), "the agent is not ready");
    install(&bench, missing).await;
    let computes = system(&[("compute-01", 0)]);
    bench.make::<api::SystemConfiguration>("default", computes).await;
    bench.make::<NnfStorageProfile>("default", profile()).await;
    job(&bench).await;
    assert!(bench.status.is_ready());
}

#[tokio::test]
async fn the_agent_waits_for_a_missing_kind_that_it_reports() {
    start_without::<NnfNodeBlockStorage>().await;
}

#[tokio::test]
async fn the_agent_waits_for_a_missing_kind_that_it_only_reads() {
    start_without::<NnfStorageProfile>().await;
}

#[tokio::test]
async fn the_agent_works_on_other_objects_while_one_cannot_be_decoded_and_undoes_nothing() {
    // Newer or older software may define the kinds in a way that allows objects that our types cannot decode.
    let mut crds = strict_crds();
    for crd in &mut crds {
        let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema.as_object_mut().unwrap().remove("required");
    }
    let mut bench = Bench::with_crds(crds).await;
    bench.site().await;
    for (kind, plural, group) in [
        ("ClientMount", "clientmounts", "dataworkflowservices.github.io/v1alpha7"),
        ("NnfNodeStorage", "nnfnodestorages", "nnf.cray.hpe.com/v1alpha11"),
        ("NnfNodeBlockStorage", "nnfnodeblockstorages", "nnf.cray.hpe.com/v1alpha11"),
    ] {
        let object = json!({"apiVersion": group, "kind": kind, "metadata": {"name": "nothing", "namespace": RABBIT}});
        retry_until_served(async || {
            let path = format!("/apis/{group}/namespaces/{RABBIT}/{plural}");
            let request = http::Request::post(path).header("content-type", "application/json");
            let request = request.body(object.to_string().into_bytes()).unwrap();
            bench.client.request::<Value>(request).await
        })
        .await;
    }
    bench.start();
    job(&bench).await;
    // A ClientMount that cannot be decoded postpones the removal of unwanted mounts, but no other work.
    assert!(bench.status.is_ready());
    // A block storage keeps its namespaces as long as an object that cannot be decoded may use it.
    let other = block_storage("other", &[(1 << 20, &[RABBIT])]);
    bench.make::<NnfNodeBlockStorage>(RABBIT, other).await;
    bench.until("other", "ready", block_ready).await;
    bench.make::<NnfNodeStorage>(RABBIT, node_storage("other", 1)).await;
    bench.until("other", "ready", storage_ready).await;
    // File systems on a block storage that cannot be decoded may exist, so the agent does not treat them as torn down.
    let mut over = node_storage("over", 1);
    over["spec"]["blockReference"]["name"] = json!("nothing");
    bench.make::<NnfNodeStorage>(RABBIT, over).await;
    bench
        .until("over", "with a finalizer", |storage: &NnfNodeStorage| {
            !storage.finalizers().is_empty()
        })
        .await;
    bench.delete::<NnfNodeStorage>("over").await;
    let refused = |storage: &NnfNodeStorage| {
        let error = storage.status.as_ref().and_then(|status| status.error.as_ref());
        error.is_some_and(|error| error.debug_message.contains("/nothing cannot be decoded"))
    };
    bench.until("over", "refused", refused).await;
    bench.delete::<NnfNodeBlockStorage>("nothing").await;
    // Without this change of the object, only the timer would make the agent retry.
    let again = json!({"metadata": {"labels": {"look": "again"}}});
    bench.change::<NnfNodeStorage>("over", again).await;
    bench.until_gone::<NnfNodeStorage>("over").await;
    bench.delete::<ClientMount>("nothing").await;
    bench.until_gone::<ClientMount>("nothing").await;
    bench.delete::<ClientMount>(MOUNT).await;
    bench.until_gone::<ClientMount>(MOUNT).await;
    assert!(bench.get::<NnfNodeBlockStorage>(NAME).await.finalizers().len() == 2);
}

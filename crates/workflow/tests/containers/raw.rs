//! Tests volumes of raw storage on a real kube-apiserver: which objects the API admits with the coordinator's rights,
//! and which volumes its controllers bind and keep.

use std::{collections::BTreeMap, path::Path};

use api::{NnfContainerProfileData, PersistentVolume, names::label};
use containers::{Device, Rabbit, Run, names, objects, volumes};
use controller::Object;
use k8s_openapi::{
    api::{batch::v1::Job, core::v1::PersistentVolumeClaim},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, api::ListParams};
use serde_json::{Value, from_value, json, to_value};
use workflow::{change::Change, claims::SharedLease, execute::execute};

use crate::{
    ended_pod,
    site::{Site, until},
};

const UID: &str = "25cfbc9a-86b8-450a-baa5-9e29c57ca4c2";

/// Makes changes with the engine's executor.
async fn make(client: &Client, changes: impl IntoIterator<Item = Change>) {
    let made = execute(client, changes.into_iter().collect(), &SharedLease::default()).await;
    assert!(made.failures.is_empty(), "{:?}", made.failures);
}

/// Returns the only object of a kind with the label of containers, listed as the engine's watch lists it.
async fn find<K: Object>(api: &Api<K>) -> Option<K> {
    let ours = ListParams::default().labels(label::CONTAINER);
    api.list(&ours).await.unwrap().items.pop()
}

fn phase<K: Object>(object: &K) -> Value {
    to_value(object).unwrap()["status"]["phase"].clone()
}

/// Returns a PersistentVolume, its PersistentVolumeClaim, and a Job whose pod uses them.
fn new_objects() -> (PersistentVolume, PersistentVolumeClaim, Job) {
    let profile =
        json!({"spec": {"containers": [{"name": "app", "image": "registry.example/app:1"}]}});
    let profile: NnfContainerProfileData = from_value(profile).unwrap();
    let metadata = ObjectMeta {
        namespace: Some("default".to_owned()),
        labels: Some([(label::CONTAINER.to_owned(), "raw".to_owned())].into()),
        ..ObjectMeta::default()
    };
    let device = Device {
        name: names::volume(UID, 0, "r", 0),
        path: format!("/mnt/nnf/{UID}-0/node-0"),
        capacity: 1 << 30,
    };
    let devices = [("r".to_owned(), vec![device.clone()])].into();
    let run = Run {
        workflow: "raw",
        service: "raw",
        name: "raw-1",
        metadata,
        user: 1001,
        group: 1002,
        profile: &profile,
        storages: &[],
        packages: &BTreeMap::new(),
        devices: &devices,
        placement: &[Rabbit { name: "r".to_owned(), computes: Vec::new() }],
        ports: &[],
        network_port: None,
        attempt: None,
        cluster_domain: "cluster.local",
    };
    let job = objects::job(&run, 0).unwrap();
    (volumes::volume(&run, "r", &device), volumes::claim(&run, &device), job)
}

pub(crate) async fn check_bound_and_kept(site: &Site, directory: &Path) {
    let client = site.coordinators_client(directory).await;
    let all: Api<PersistentVolume> = Api::all(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    // The API server applies new rights a moment later.
    until("the rights", async || all.list(&ListParams::default()).await.ok()).await;
    until("the rights", async || claims.list(&ListParams::default()).await.ok()).await;
    let (volume, claim, job) = new_objects();
    make(&client, [Change::create(&volume), Change::create(&claim)]).await;
    let volume = until("the volume to be bound", async || {
        find(&all).await.filter(|volume| phase(volume) == "Bound")
    });
    let volume = volume.await;
    let claim = until("the claim to be bound", async || {
        find(&claims).await.filter(|claim| phase(claim) == "Bound")
    });
    let claim = claim.await;
    make(&client, [Change::create(&job)]).await;
    let pods = site.pods("raw", 1).await;
    assert_eq!(pods[0]["spec"]["containers"][0]["volumeDevices"][0]["devicePath"], "/dev/nnf/0");
    // A Node object must name a kubelet's port. No kubelet runs here, and the test reads no logs, so any port will do.
    site.place("raw", 1).await;
    make(&client, Change::delete(&claim).into_iter().chain(Change::delete(&volume))).await;
    site.set_pod_status("raw", ended_pod(0, "")).await;
    let is_deleted = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_some();
    assert!(is_deleted(&find(&claims).await.unwrap().metadata), "a pod uses the claim");
    assert!(is_deleted(&find(&all).await.unwrap().0.metadata), "the claim still exists");
    let jobs: Api<Job> = Api::namespaced(client.clone(), "default");
    let job = find(&jobs).await.unwrap();
    make(&client, Change::delete(&job)).await;
    until("the claim to be gone", async || find(&claims).await.is_none().then_some(())).await;
    until("the volume to be gone", async || find(&all).await.is_none().then_some(())).await;
}

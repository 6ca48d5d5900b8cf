//! Measures the API server without an engine: creates all objects of a container run at once, and the same simulated
//! agents report on them.

use std::{path::Path, time::Instant};

use anyhow::{Context, bail};
use api::{ClientMount, NnfPortManager, NodeContainers};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{
        ApiResource, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams,
        WatchEvent, WatchParams,
    },
};
use serde_json::{Value, json};

use super::super::{
    super::life::millis,
    nodes::{Machine, retry},
    processor, start_empty,
};
use crate::cluster::PATIENCE;

/// Number of requests that wait for an answer at the same time; the engine has the same limit.
const SIDE_BY_SIDE: usize = 64;

/// The objects that were created between the end of Setup and the moment when all containers were ready.
#[derive(Debug)]
pub(super) struct Objects {
    mounts: Vec<DynamicObject>,
    files: Vec<DynamicObject>,
    containers: Vec<DynamicObject>,
    ports: Vec<DynamicObject>,
}

/// Cost of these objects for the server.
#[derive(Debug)]
pub(super) struct Cost {
    pub(super) seconds: f64,
    pub(super) processor: f64,
    /// Size in bytes of all ConfigMaps and NodeContainers: the rabbits read from them which containers to run.
    pub(super) bytes: f64,
}

/// Reads the objects from the server on which an engine created them.
pub(super) async fn collect(client: &Client) -> anyhow::Result<Objects> {
    Ok(Objects {
        mounts: list::<ClientMount>(client).await?,
        files: list::<ConfigMap>(client).await?,
        containers: list::<NodeContainers>(client).await?,
        ports: list::<NnfPortManager>(client).await?,
    })
}

async fn list<K: Resource<DynamicType = ()>>(
    client: &Client,
) -> anyhow::Result<Vec<DynamicObject>> {
    let kind = ApiResource::erase::<K>(&());
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    Ok(all.list(&ListParams::default()).await.context("list")?.items)
}

/// Creates the objects on a new server, and waits until the agents have reported the status of each.
pub(super) async fn measure(
    directory: &Path,
    rabbits: usize,
    computes: usize,
    objects: &Objects,
) -> anyhow::Result<Cost> {
    let (mut coordinator, client) = start_empty(directory, &["--workflows=false"]).await?;
    let machine = Machine::new(client.clone(), rabbits, computes);
    machine.configure().await?;
    let nodes = machine.start();
    let spaces: Api<Namespace> = Api::all(client.clone());
    retry(|| async {
        let there = spaces.list(&ListParams::default()).await?.items.len();
        anyhow::ensure!(there > rabbits * (computes + 1), "{there} namespaces");
        Ok(())
    })
    .await?;
    let used = processor(coordinator.pid()?)?;
    let begun = Instant::now();
    let is_ready = |data: &Value| data["status"]["state"] == "Ready";
    let is_mounted = |data: &Value| data["status"]["allReady"] == true;
    // Creates the objects in the engine's order: ports, then mounts, then containers.
    create_with_status::<NnfPortManager>(&client, &objects.ports).await?;
    create_all::<ConfigMap>(&client, &objects.files).await?;
    create_and_await::<ClientMount>(&client, &objects.mounts, is_mounted).await?;
    create_and_await::<NodeContainers>(&client, &objects.containers, is_ready).await?;
    let seconds = millis(begun.elapsed()) / 1000.0;
    let processor = processor(coordinator.pid()?)? - used;
    nodes.abort();
    coordinator.stop(PATIENCE)?;
    let all = objects.files.iter().chain(&objects.containers);
    let bytes = all.map(|object| serde_json::to_vec(&object.data).map(|bytes| bytes.len()));
    let bytes: usize = bytes.sum::<Result<_, _>>()?;
    Ok(Cost { seconds, processor, bytes: f64::from(u32::try_from(bytes)?) })
}

async fn create_all<K: Resource<DynamicType = ()>>(
    client: &Client,
    objects: &[DynamicObject],
) -> anyhow::Result<()> {
    for_each::<K>(client, objects, async |api, object| {
        api.create(&PostParams::default(), &new_object(object)).await?;
        Ok(())
    })
    .await
}

/// Creates objects, and writes to each the status that it had on the server from which it was read.
async fn create_with_status<K: Resource<DynamicType = ()>>(
    client: &Client,
    objects: &[DynamicObject],
) -> anyhow::Result<()> {
    for_each::<K>(client, objects, async |api, object| {
        api.create(&PostParams::default(), &new_object(object)).await?;
        let status = Patch::Merge(json!({"status": object.data["status"]}));
        api.patch_status(&object.name_any(), &PatchParams::default(), &status).await?;
        Ok(())
    })
    .await
}

/// Creates objects, and waits until agents have reported the status of each.
async fn create_and_await<K: Resource<DynamicType = ()>>(
    client: &Client,
    objects: &[DynamicObject],
    is_reported: impl Fn(&Value) -> bool,
) -> anyhow::Result<()> {
    let kind = ApiResource::erase::<K>(&());
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let version = all.list(&ListParams::default()).await?.metadata.resource_version;
    let all_of_them = WatchParams::default().timeout(290);
    let mut events = all.watch(&all_of_them, &version.context("a version")?).await?.boxed();
    let create = create_all::<K>(client, objects);
    let wait_for_reports = async {
        let mut open = objects.len();
        while open > 0 {
            match events.try_next().await? {
                // Counts each object once: an agent writes an object's status once.
                Some(WatchEvent::Modified(object)) if is_reported(&object.data) => open -= 1,
                Some(WatchEvent::Error(status)) => bail!("watch: {}", status.message),
                None => bail!("the watch ended before {open} objects had a status"),
                _ => {}
            }
        }
        Ok(())
    };
    tokio::try_join!(create, wait_for_reports).map(drop)
}

async fn for_each<K: Resource<DynamicType = ()>>(
    client: &Client,
    objects: &[DynamicObject],
    work: impl AsyncFn(Api<DynamicObject>, &DynamicObject) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (kind, work) = (ApiResource::erase::<K>(&()), &work);
    let each = objects.iter().map(|object| {
        let namespace = object.namespace().unwrap_or_default();
        let api = Api::namespaced_with(client.clone(), &namespace, &kind);
        async move { work(api, object).await.with_context(|| object.name_any()) }
    });
    stream::iter(each).buffer_unordered(SIDE_BY_SIDE).try_collect().await
}

/// Returns the object as it was created: without its status, and without the metadata that the server added.
fn new_object(object: &DynamicObject) -> DynamicObject {
    let mut new = object.clone();
    let metadata = &object.metadata;
    new.metadata = ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        labels: metadata.labels.clone(),
        ..ObjectMeta::default()
    };
    if let Some(data) = new.data.as_object_mut() {
        data.remove("status");
    }
    new
}

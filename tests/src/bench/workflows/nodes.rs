//! Simulated nodes: their agents immediately report every request as done, without doing anything. Like the real
//! agents, they send two writes for each new object and one for each later change.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, ensure};
use api::names::finalizer;
use futures::StreamExt;
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Number of writes that wait for an answer at the same time.
const SIDE_BY_SIDE: usize = 64;
/// Capacity of all drives of a rabbit, in bytes.
const BYTES: u64 = 40 << 40;

/// The simulated rabbits, by number, and counters of the agents' writes.
#[derive(Clone)]
pub(super) struct Machine {
    client: Client,
    rabbits: usize,
    /// Number of computes per rabbit.
    each: usize,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    writes: AtomicU32,
    objects: AtomicU32,
}

impl Machine {
    pub(super) fn new(client: Client, rabbits: usize, each: usize) -> Self {
        Self { client, rabbits, each, counts: Arc::default() }
    }

    /// Returns the number of writes that the agents have sent so far.
    pub(super) fn writes(&self) -> f64 {
        f64::from(self.counts.writes.load(Ordering::Relaxed))
    }

    /// Returns the number of objects on which the agents have begun to work so far.
    pub(super) fn objects(&self) -> f64 {
        f64::from(self.counts.objects.load(Ordering::Relaxed))
    }

    /// Returns the computes of `count` rabbits, starting with rabbit `first`.
    pub(super) fn computes(&self, first: usize, count: usize) -> Vec<String> {
        let computes_of = |rabbit: usize| (0..self.each).map(move |slot| compute(rabbit, slot));
        (first..first + count).flat_map(computes_of).collect()
    }

    /// Creates the SystemConfiguration and a NnfNode for each rabbit, and waits until the engine reports
    /// all rabbits as ready.
    pub(super) async fn describe(&self) -> anyhow::Result<()> {
        self.configure().await?;
        for rabbit in 0..self.rabbits {
            self.enable(rabbit).await.with_context(|| rabbit_name(rabbit))?;
        }
        let storages: Api<api::Storage> = Api::namespaced(self.client.clone(), "default");
        retry(|| async {
            let listed = storages.list(&kube::api::ListParams::default()).await?;
            let is_ready = |storage: &&api::Storage| {
                serde_json::to_value(storage)
                    .is_ok_and(|storage| storage["status"]["status"] == "Ready")
            };
            let ready = listed.iter().filter(is_ready).count();
            ensure!(ready == self.rabbits, "{ready} of {} rabbits are Ready", self.rabbits);
            Ok(())
        })
        .await
    }

    pub(super) async fn configure(&self) -> anyhow::Result<()> {
        let configurations: Api<api::SystemConfiguration> =
            Api::namespaced(self.client.clone(), "default");
        let rabbits: Vec<Value> =
            (0..self.rabbits).map(|rabbit| storage_node(rabbit, self.each)).collect();
        let configuration = serde_json::from_value(json!({
            "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "SystemConfiguration",
            "metadata": {"name": "default", "namespace": "default"},
            "spec": {"ports": ["5000-5999"], "portsCooldownInSeconds": 0, "storageNodes": rabbits},
        }))?;
        retry(|| async { Ok(configurations.create(&PostParams::default(), &configuration).await?) })
            .await
    }

    async fn enable(&self, rabbit: usize) -> anyhow::Result<()> {
        let nodes: Api<api::NnfNode> = Api::namespaced(self.client.clone(), &rabbit_name(rabbit));
        let node = serde_json::from_value(json!({
            "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfNode",
            "metadata": {"name": "nnf-nlc", "namespace": rabbit_name(rabbit)},
            "spec": {"name": rabbit_name(rabbit), "pod": "none", "state": "Enable"},
        }))?;
        retry(|| async { Ok(nodes.create(&PostParams::default(), &node).await?) }).await?;
        let computes = (0..self.each).map(|slot| {
            json!({"hostname": compute(rabbit, slot), "id": (slot + 1).to_string(), "status": "Ready", "health": "OK"})
        });
        let own =
            json!({"hostname": rabbit_name(rabbit), "id": "0", "status": "Ready", "health": "OK"});
        let servers: Vec<Value> = [own].into_iter().chain(computes).collect();
        let status = json!({"status": {
            "status": "Ready", "health": "OK", "capacity": BYTES, "capacityAllocated": 0, "servers": servers,
        }});
        nodes.patch_status("nnf-nlc", &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    /// Starts all agents; they end when the set is dropped.
    pub(super) fn start(&self) -> Agents {
        let mut agents = JoinSet::new();
        let finalizer = finalizer::NNF_NODE_BLOCK_STORAGE;
        agents.spawn(self.clone().work::<api::NnfNodeBlockStorage>(finalizer, block_storage));
        let finalizer = finalizer::NNF_NODE_STORAGE;
        agents.spawn(self.clone().work::<api::NnfNodeStorage>(finalizer, node_storage));
        agents.spawn(self.clone().work::<api::ClientMount>(finalizer::CLIENT_MOUNT, client_mount));
        let finalizer = finalizer::NODE_CONTAINERS;
        agents.spawn(self.clone().work::<api::NodeContainers>(finalizer, containers));
        Agents(agents)
    }

    async fn work<K: Resource<DynamicType = ()>>(
        self,
        finalizer: &'static str,
        status: fn(&Value) -> Option<Value>,
    ) {
        let kind = ApiResource::erase::<K>(&());
        let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
        let objects = watcher(all, watcher::Config::default()).default_backoff().touched_objects();
        let act = |object: Result<DynamicObject, watcher::Error>| {
            let (machine, kind) = (&self, &kind);
            async move {
                if let Ok(object) = object {
                    machine.act(&object, kind, finalizer, status).await;
                }
            }
        };
        objects.for_each_concurrent(SIDE_BY_SIDE, act).await;
    }

    /// Sends the next write that an object needs, if any. After the write, the watch delivers the object again.
    async fn act(
        &self,
        object: &DynamicObject,
        kind: &ApiResource,
        finalizer: &str,
        status: fn(&Value) -> Option<Value>,
    ) {
        let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
        let own: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &namespace, kind);
        let to = PatchParams::default();
        let is_held = !object.finalizers().is_empty();
        let written = if object.metadata.deletion_timestamp.is_some() {
            if !is_held {
                return;
            }
            own.patch(&name, &to, &Patch::Merge(json!({"metadata": {"finalizers": null}}))).await
        } else if is_held {
            let Some(status) = status(&object.data) else { return };
            own.patch_status(&name, &to, &Patch::Merge(json!({"status": status}))).await
        } else {
            self.counts.objects.fetch_add(1, Ordering::Relaxed);
            let held = json!({"metadata": {"finalizers": [finalizer]}});
            own.patch(&name, &to, &Patch::Merge(held)).await
        };
        if written.is_ok() {
            self.counts.writes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Running agents of the simulated nodes.
#[derive(Debug)]
pub(super) struct Agents(JoinSet<()>);

impl Agents {
    pub(super) fn abort(mut self) {
        self.0.abort_all();
    }
}

fn rabbit_name(rabbit: usize) -> String {
    format!("rabbit-{rabbit}")
}

fn compute(rabbit: usize, slot: usize) -> String {
    format!("compute-{rabbit}-{slot}")
}

fn storage_node(rabbit: usize, computes: usize) -> Value {
    let computes = (0..computes).map(|slot| json!({"name": compute(rabbit, slot), "index": slot}));
    json!({"type": "Rabbit", "name": rabbit_name(rabbit), "computesAccess": computes.collect::<Vec<_>>()})
}

fn block_storage(object: &Value) -> Option<Value> {
    let wanted = object["spec"]["allocations"].as_array()?;
    let reported = &object["status"]["allocations"];
    let is_reported = |index: usize, allocation: &Value| {
        let requested = allocation["access"].as_array().map_or(0, Vec::len);
        reported[index]["accesses"].as_object().map_or(0, serde_json::Map::len) == requested
    };
    if reported.is_array()
        && wanted.iter().enumerate().all(|(index, allocation)| is_reported(index, allocation))
    {
        return None;
    }
    let allocations = wanted.iter().enumerate().map(|(index, allocation)| {
        let nodes = allocation["access"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let group = json!({"storageGroupId": format!("g-{index}")});
        let accesses: Value = nodes.map(|node| (node.to_owned(), group.clone())).collect();
        json!({
            "accesses": accesses, "capacityAllocated": allocation["capacity"],
            "devices": [{"NQN": "nqn.2026-11.test:d", "namespaceId": (index + 1).to_string()}],
        })
    });
    Some(json!({"ready": true, "allocations": allocations.collect::<Vec<_>>()}))
}

fn node_storage(object: &Value) -> Option<Value> {
    if object["status"]["ready"] == true {
        return None;
    }
    let count = object["spec"]["count"].as_u64()?;
    let allocations: Vec<Value> = (0..count).map(|_| json!({"ready": true})).collect();
    Some(json!({"ready": true, "health": "Healthy", "allocations": allocations}))
}

fn client_mount(object: &Value) -> Option<Value> {
    let desired = &object["spec"]["desiredState"];
    let mounts = object["spec"]["mounts"].as_array()?;
    let reported = object["status"]["mounts"].as_array();
    if reported.is_some_and(|reported| {
        reported.len() == mounts.len() && reported.iter().all(|mount| mount["state"] == *desired)
    }) {
        return None;
    }
    let mounts: Vec<Value> =
        mounts.iter().map(|_| json!({"state": desired, "ready": true})).collect();
    Some(json!({"allReady": true, "mounts": mounts}))
}

fn containers(object: &Value) -> Option<Value> {
    let is_ready = object["status"]["state"] == "Ready";
    (!is_ready).then(|| json!({"state": "Ready", "attempt": 1, "startTime": Timestamp::now()}))
}

/// Repeats an attempt for up to a minute: namespaces and CRDs appear some time after the coordinator has started.
pub(super) async fn retry<T, F>(attempt: impl Fn() -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<T>>,
{
    for _ in 0..600 {
        if attempt().await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    attempt().await.map(drop).context("after a minute of attempts")
}

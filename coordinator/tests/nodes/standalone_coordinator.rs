//! A standalone coordinator in a temporary directory, and a client of its API.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::{ClientMount, NnfStorageProfile, SystemConfiguration};
use apiclient::Address;
use coordinator::Coordinator;
use coordinator::config::{Backend, Config, Standalone, Tls};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{Condition, await_condition};
use kube::{Client, Resource};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A test that waits longer than this has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) struct StandaloneCoordinator {
    pub client: Client,
    pub node_address: Option<std::net::SocketAddr>,
    socket: PathBuf,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), coordinator::ServeError>>,
}

impl StandaloneCoordinator {
    pub(crate) async fn start(directory: &TempDir) -> Self {
        Self::start_with(directory, None).await
    }

    pub(crate) async fn start_with(directory: &TempDir, tls: Option<Tls>) -> Self {
        Self::start_as(directory, tls, None).await
    }

    /// Starts a coordinator with the workflow engine.
    pub(crate) async fn start_with_engine(directory: &TempDir, tls: Option<Tls>) -> Self {
        Self::start_as(directory, tls, Some(workflow::Settings::default())).await
    }

    pub(crate) async fn start_as(
        directory: &TempDir,
        tls: Option<Tls>,
        workflows: Option<workflow::Settings>,
    ) -> Self {
        let root = directory.path();
        let kubeconfig = root.join("kubeconfig");
        let standalone = Standalone {
            data_dir: root.join("data"),
            api_socket: root.join("api.sock"),
            api_listen: "127.0.0.1:0".parse().unwrap(),
            api_listen_rabbits: None,
            write_kubeconfig: Some(kubeconfig.clone()),
        };
        let socket = root.join("coordinator.sock");
        let config = Config {
            backend: Backend::Standalone(standalone),
            socket: socket.clone(),
            workloads: None,
            managers: Vec::new(),
            tls,
            http: None,
            webhook: None,
            workflows,
        };
        let coordinator = Coordinator::start(&config).await.unwrap();
        let node_address = coordinator.node_address;
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(coordinator.run_until(async {
            let _ = stopped.await;
        }));
        let client = connect(&kubeconfig).await;
        let this = Self { client, node_address, socket, stop, running };
        this.configure().await;
        this
    }

    /// Starts a second coordinator, which uses the API of the first as if it were a cluster's; returns its socket.
    pub(crate) async fn start_replica(&self, directory: &TempDir) -> PathBuf {
        let socket = directory.path().join("replica.sock");
        let kubeconfig = Address::Kubeconfig(Some(directory.path().join("kubeconfig")));
        let backend = Backend::Cluster(kubeconfig);
        let config = Config {
            backend,
            socket: socket.clone(),
            workloads: None,
            managers: Vec::new(),
            tls: None,
            http: None,
            webhook: None,
            workflows: None,
        };
        let replica = Coordinator::start(&config).await.unwrap();
        tokio::spawn(replica.run_until(std::future::pending()));
        socket
    }

    /// Stops the coordinator, and waits until its sockets and its store are closed.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        tokio::time::timeout(DEADLINE, self.running).await.unwrap().unwrap().unwrap();
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn mounts(&self, node: &str) -> Api<DynamicObject> {
        let resource = kube::api::ApiResource::erase::<ClientMount>(&());
        Api::namespaced_with(self.client.clone(), node, &resource)
    }

    pub(crate) fn profiles(&self) -> Api<NnfStorageProfile> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Creates a SystemConfiguration with two computes and a rabbit, and waits for their namespaces.
    async fn configure(&self) {
        let configurations: Api<SystemConfiguration> =
            Api::namespaced(self.client.clone(), "default");
        let configuration = json!({
            "apiVersion": SystemConfiguration::api_version(&()), "kind": "SystemConfiguration",
            "metadata": {"name": "default"},
            "spec": {"portsCooldownInSeconds": 60, "storageNodes": [{"type": "Rabbit", "name": "rabbit-1",
                "computesAccess": [{"name": "compute-1", "index": 0}, {"name": "compute-2", "index": 1}]}]}
        });
        let configuration = serde_json::from_value(configuration).unwrap();
        match configurations.create(&PostParams::default(), &configuration).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{error}"),
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        for node in ["compute-1", "compute-2", "rabbit-1"] {
            wait_for(namespaces.clone(), node, |object: Option<&Namespace>| object.is_some()).await;
        }
    }

    pub(crate) async fn create_mount(
        &self,
        namespace: &str,
        name: &str,
        node: &str,
    ) -> DynamicObject {
        let object = serde_json::from_value(json!({
            "apiVersion": ClientMount::api_version(&()), "kind": "ClientMount",
            "metadata": {"name": name, "labels": {
                "nnf.cray.hpe.com/pinned_storage_profile_name": "pinned",
                "nnf.cray.hpe.com/pinned_storage_profile_namespace": "default"}},
            "spec": {"node": node, "desiredState": "mounted", "mounts": [{
                "mountPath": format!("/mnt/nnf/{name}"), "setPermissions": false, "options": "", "type": "xfs",
                "targetType": "directory", "device": {"type": "lvm"}}]}
        }))
        .unwrap();
        self.mounts(namespace).create(&PostParams::default(), &object).await.unwrap()
    }

    pub(crate) async fn create_profile(&self) {
        let profile = serde_json::from_value(json!({
            "apiVersion": NnfStorageProfile::api_version(&()), "kind": "NnfStorageProfile",
            "metadata": {"name": "pinned"}, "data": profile_data()
        }))
        .unwrap();
        self.profiles().create(&PostParams::default(), &profile).await.unwrap();
    }

    pub(crate) async fn set_desired(&self, node: &str, name: &str, state: &str) {
        let patch = Patch::Merge(json!({"spec": {"desiredState": state}}));
        self.mounts(node).patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Overwrites a status, as another client may.
    pub(crate) async fn overwrite_status(&self, node: &str, name: &str, status: &Value) {
        let operations = json!([{"op": "add", "path": "/status", "value": status}]);
        let patch = Patch::Json::<()>(serde_json::from_value(operations).unwrap());
        self.mounts(node).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until the object's status is `status`.
    pub(crate) async fn await_status(&self, node: &str, name: &str, status: Value) {
        wait_for(self.mounts(node), name, move |object: Option<&DynamicObject>| {
            object.is_some_and(|object| object.data.get("status") == Some(&status))
        })
        .await;
    }

    pub(crate) async fn await_gone(&self, node: &str, name: &str) {
        wait_for(self.mounts(node), name, |object: Option<&DynamicObject>| object.is_none()).await;
    }
}

/// Returns the smallest pinned profile that the schema allows.
fn profile_data() -> Value {
    json!({"pinned": true, "gfs2Storage": {}, "lustreStorage": {}, "rawStorage": {}, "xfsStorage": {}})
}

pub(crate) fn status(state: &str) -> Value {
    json!({"mounts": [{"state": state, "ready": true}], "allReady": true})
}

async fn connect(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

pub(crate) async fn wait_for<K>(api: Api<K>, name: &str, condition: impl Condition<K>)
where
    K: Clone + std::fmt::Debug + Send + serde::de::DeserializeOwned + Resource + 'static,
{
    let met = tokio::time::timeout(DEADLINE, await_condition(api, name, condition)).await;
    met.unwrap_or_else(|_| panic!("{name} does not meet the condition in time")).unwrap();
}

//! A control plane with the engine and two rabbits, and the actions of a workload manager.

use std::{path::Path, time::Duration};

use api::{
    ContainerRun, NnfContainerProfile, NodeContainers, SystemConfiguration, Workflow,
    names::finalizer, node_containers::NodeContainersStatus,
};
use containers::claim::Holder;
use control_plane::ControlPlane;
use controller::Object;
use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{ConfigMap, Namespace, Node, Pod, Secret, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, from_value, json, to_value};
use tokio::task::JoinHandle;
use workflow::{Containers, Rules, Settings, shipped};

/// Longest wait for any result, longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

const STATES: [&str; 4] = ["Proposal", "Setup", "DataIn", "PreRun"];

pub(crate) struct Site {
    client: Client,
    plane: ControlPlane,
    pub(crate) coordinators: Vec<JoinHandle<()>>,
}

impl Site {
    pub(crate) async fn start(directory: &Path) -> Self {
        let mut site = Self::idle(directory).await;
        site.coordinator(None);
        site
    }

    /// Starts a coordinator; with a name (`claims_as`), it claims runs under this name.
    pub(crate) fn coordinator(&mut self, claims_as: Option<Holder>) {
        let settings = Settings {
            containers: Some(Containers {
                namespace: Some("default".to_owned()),
                cluster_domain: "cluster.local".to_owned(),
                podhelper_image: Some("registry.example/podhelper:1".to_owned()),
                packages: true,
            }),
            claims_as,
            ..Settings::default()
        };
        let engine = workflow::run(
            self.client.clone(),
            settings,
            Rules::default(),
            workflow::Channels {
                requests: workflow::EngineHandle::new().1,
                sessions: tokio::sync::mpsc::unbounded_channel().1,
                events: controller::events::Events::default(),
            },
        );
        self.coordinators.push(tokio::spawn(engine));
    }

    /// Starts a control plane without coordinators. It has our CRDs, the shipped rules and profiles, and a
    /// SystemConfiguration with the rabbits `r` and `s`.
    pub(crate) async fn idle(directory: &Path) -> Self {
        let plane = ControlPlane::start(directory, control_plane::Settings::default()).unwrap();
        let client = plane.client().await.unwrap();
        let site = Self { client, plane, coordinators: Vec::new() };
        let definitions: Api<CustomResourceDefinition> = Api::all(site.client.clone());
        for crd in site_rules::strict(api::ruled_crd_values()) {
            let crd: CustomResourceDefinition = from_value(crd).unwrap();
            definitions.create(&PostParams::default(), &crd).await.unwrap();
        }
        for name in ["r", "s"] {
            let namespace = json!({"metadata": {"name": name}});
            let namespace: Namespace = from_value(namespace).unwrap();
            let namespaces: Api<Namespace> = Api::all(site.client.clone());
            namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        }
        // The API serves a CRD a moment after its creation.
        let install = || shipped::install(&site.client);
        until("the shipped rules", async || install().await.ok()).await;
        let rabbit = |name: &str, compute: &str| json!({"type": "Rabbit", "name": name, "computesAccess": [{"name": compute, "index": 0}]});
        let system = json!({
            "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "SystemConfiguration",
            "metadata": {"name": "default", "namespace": "default"},
            "spec": {"storageNodes": [rabbit("r", "c1"), rabbit("s", "d1")], "ports": ["5000-5001"], "portsCooldownInSeconds": 0},
        });
        site.create::<SystemConfiguration>("default", system).await;
        site
    }

    /// Returns a client with exactly the coordinator's rights on containers, as the packages grant them.
    pub(crate) async fn coordinators_client(&self, directory: &Path) -> Client {
        let account =
            json!({"metadata": {"name": "warren-coordinator", "namespace": "nnf-system"}});
        self.create::<ServiceAccount>("nnf-system", account).await;
        let rights = "../../packaging/kubernetes/containers/containers-access.yaml";
        let rights = Path::new(env!("CARGO_MANIFEST_DIR")).join(rights);
        let rights = std::fs::read_to_string(rights).unwrap();
        for object in serde_saphyr::from_multiple::<DynamicObject>(&rights).unwrap() {
            let types = object.types.as_ref().unwrap();
            let resource = ApiResource::from_gvk(&types.try_into().unwrap());
            let all = || Api::all_with(self.client.clone(), &resource);
            let within = |name: &str| Api::namespaced_with(self.client.clone(), name, &resource);
            let api = object.metadata.namespace.as_deref().map_or_else(all, within);
            api.create(&PostParams::default(), &object).await.unwrap();
        }
        let hour = Duration::from_secs(3600);
        let token = self.plane.token("nnf-system", "warren-coordinator", hour).await.unwrap();
        let kubeconfig = directory.join("coordinator.kubeconfig");
        self.plane.kubeconfig_for(&kubeconfig, &control_plane::Login::Token(token)).unwrap();
        control_plane::client(&kubeconfig).await.unwrap()
    }

    /// Runs the `warren` that `cargo build --workspace --bins` built, and returns its JSON output.
    pub(crate) async fn warren(&self, arguments: &[&str]) -> Value {
        let tests = std::env::current_exe().unwrap();
        let program = tests.parent().unwrap().with_file_name("warren");
        let output = tokio::process::Command::new(program)
            .args(arguments)
            .env("WARREN_KUBECONFIG", self.plane.kubeconfig())
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn api<K: Object>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn create<K: Object>(&self, namespace: &str, object: Value) {
        let object = from_value(object).unwrap();
        until(&format!("{} to be served", K::kind(&())), async || {
            self.api::<K>(namespace).create(&PostParams::default(), &object).await.ok()
        })
        .await;
    }

    /// Creates a profile with one container and one port; `more` is added to its data.
    pub(crate) async fn profile(&self, name: &str, more: Value) {
        let mut data = json!({
            "numPorts": 1, "spec": {"containers": [{"name": "app", "image": "registry.example/app:1"}]},
        });
        data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.profile_of(name, data).await;
    }

    /// Creates a profile for MPI with this run policy.
    pub(crate) async fn mpi_profile(&self, name: &str, policy: Value) {
        let pod = |fields: Value| {
            let mut container = json!({"name": "app", "image": "registry.example/app:1"});
            container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            json!({"containers": [container]})
        };
        let launcher = pod(json!({"command": ["mpirun", "hostname"]}));
        let mpi = json!({"launcher": launcher, "worker": pod(json!({})), "runPolicy": policy});
        self.profile_of(name, json!({"numPorts": 1, "mpiSpec": mpi})).await;
    }

    async fn profile_of(&self, name: &str, data: Value) {
        let profile = json!({
            "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfContainerProfile",
            "metadata": {"name": name, "namespace": "nnf-system"}, "data": data,
        });
        self.create::<NnfContainerProfile>("nnf-system", profile).await;
    }

    /// Brings a new workflow to a state, without waiting for the end of that state.
    pub(crate) async fn bring_towards(&self, name: &str, profile: &str, to: &str) {
        let workflow = json!({
            "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "Workflow",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "desiredState": "Proposal", "wlmID": "test", "jobID": 7, "userID": 1001, "groupID": 1002,
                "dwDirectives": [format!("#DW container name=beside profile={profile}")],
            },
        });
        self.create::<Workflow>("default", workflow).await;
        for (place, state) in STATES.iter().enumerate() {
            if place > 0 {
                self.request_state(name, state).await;
            }
            if *state == to {
                return;
            }
            self.wait(name, state, "Completed", "").await;
            if *state == "Proposal" {
                self.patch::<api::Computes>(
                    name,
                    json!({"data": [{"name": "c1"}, {"name": "d1"}]}),
                )
                .await;
            }
        }
    }

    async fn patch<K: Object>(&self, name: &str, patch: Value) {
        let api = self.api::<K>("default");
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn request_state(&self, name: &str, state: &str) {
        self.patch::<Workflow>(name, json!({"spec": {"desiredState": state}})).await;
    }

    /// Waits until the status of a workflow has this state and status, and its message contains these words.
    pub(crate) async fn wait(&self, name: &str, state: &str, status: &str, words: &str) -> Value {
        let what = format!("{name} in {state} to be {status} with {words:?}");
        until(&what, async || {
            let workflow = self.api::<Workflow>("default").get(name).await.ok()?;
            let workflow = to_value(workflow).unwrap();
            let current = &workflow["status"];
            let message = current["message"].as_str().unwrap_or_default();
            let is_there =
                current["state"] == state && current["status"] == status && message.contains(words);
            is_there.then(|| workflow.clone())
        })
        .await
    }

    /// Waits for a phase of a workflow's run, and returns the run's status.
    pub(crate) async fn run(&self, name: &str, phase: &str) -> Value {
        until(&format!("the run of {name} to be {phase}"), async || {
            let run = self.api::<ContainerRun>("default").get(&format!("{name}-0")).await.ok()?;
            let status = to_value(run.status?).unwrap();
            (status["phase"] == phase).then_some(status)
        })
        .await
    }

    async fn list<K: Object>(&self, name: &str) -> Vec<K> {
        let mine = ListParams::default().labels(&format!("nnf.cray.hpe.com/container={name}"));
        self.api::<K>("default").list(&mine).await.unwrap().items
    }

    pub(crate) async fn jobs(&self, name: &str) -> Vec<Value> {
        self.list::<Job>(name).await.into_iter().map(|job| to_value(job).unwrap()).collect()
    }

    /// Waits until a workflow has this number of pods, and returns them.
    pub(crate) async fn pods(&self, name: &str, count: usize) -> Vec<Value> {
        until(&format!("{count} pods of {name}"), async || {
            let pods = self.list::<Pod>(name).await;
            (pods.len() == count).then_some(pods)
        })
        .await
        .into_iter()
        .map(|pod| to_value(pod).unwrap())
        .collect()
    }

    /// Writes a status into each pod of a workflow, as a kubelet does.
    pub(crate) async fn set_pod_status(&self, name: &str, status: Value) {
        for pod in self.list::<Pod>(name).await {
            let patch = Patch::Merge(json!({"status": status}));
            let api = self.api::<Pod>("default");
            api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.unwrap();
        }
    }

    /// Writes a status into those pods of a Job that have not ended, and returns their number.
    pub(crate) async fn set_pod_status_of_job(
        &self,
        name: &str,
        job: &str,
        status: Value,
    ) -> usize {
        let pods = self.list::<Pod>(name).await.into_iter();
        let is_over = |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            pod.metadata.deletion_timestamp.is_some()
                || matches!(phase, Some("Failed" | "Succeeded"))
        };
        let pods = pods.filter(|pod| pod.labels()["batch.kubernetes.io/job-name"] == job);
        let pods: Vec<Pod> = pods.filter(|pod| !is_over(pod)).collect();
        for pod in &pods {
            let patch = Patch::Merge(json!({"status": status}));
            let api = self.api::<Pod>("default");
            api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.unwrap();
        }
        pods.len()
    }

    /// Waits for a workflow's packages object (a NodeContainers that lists only packages) on a rabbit, and writes its
    /// status as the agent does.
    pub(crate) async fn set_agent_status(
        &self,
        name: &str,
        rabbit: &str,
        status: NodeContainersStatus,
    ) {
        let api = self.api::<NodeContainers>(rabbit);
        let mine = ListParams::default().labels(&format!("nnf.cray.hpe.com/container={name}"));
        let what = format!("packages of {name} on {rabbit}");
        let object = until(&what, async || api.list(&mine).await.ok()?.items.pop());
        let object = object.await.name_any();
        let held = json!({"metadata": {"finalizers": [finalizer::NODE_CONTAINERS]}});
        let parameters = PatchParams::default();
        api.patch(&object, &parameters, &Patch::Merge(held)).await.unwrap();
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(&object, &parameters, &patch).await.unwrap();
    }

    /// Returns the rabbits that have a packages object of a workflow.
    pub(crate) async fn packages(&self, name: &str) -> Vec<String> {
        let mine = ListParams::default().labels(&format!("nnf.cray.hpe.com/container={name}"));
        let all = Api::<NodeContainers>::all(self.client.clone()).list(&mine).await.unwrap();
        all.items.iter().filter_map(ResourceExt::namespace).collect()
    }

    /// Waits until a workflow's packages objects are deleted, and removes their finalizers as the agents do.
    pub(crate) async fn agents_remove_packages(&self, name: &str) {
        for rabbit in self.packages(name).await {
            let api = self.api::<NodeContainers>(&rabbit);
            let mine = ListParams::default().labels(&format!("nnf.cray.hpe.com/container={name}"));
            let what = format!("packages of {name} on {rabbit} to go");
            let deleted = until(&what, async || {
                let object = api.list(&mine).await.ok()?.items.pop()?;
                object.metadata.deletion_timestamp.is_some().then_some(object)
            });
            let free = Patch::Merge(json!({"metadata": {"finalizers": []}}));
            api.patch(&deleted.await.name_any(), &PatchParams::default(), &free).await.unwrap();
        }
    }

    /// Waits until a workflow has this number of Secrets, and returns them.
    pub(crate) async fn secrets(&self, name: &str, count: usize) -> Vec<Value> {
        until(&format!("{count} Secrets of {name}"), async || {
            let secrets = self.list::<Secret>(name).await;
            (secrets.len() == count).then_some(secrets)
        })
        .await
        .into_iter()
        .map(|secret| to_value(secret).unwrap())
        .collect()
    }

    /// Returns the NetworkPolicies of a workflow.
    pub(crate) async fn network_policies(&self, name: &str) -> Vec<Value> {
        let all = self.list::<NetworkPolicy>(name).await;
        all.into_iter().map(|policy| to_value(policy).unwrap()).collect()
    }

    /// Waits until a workflow has exactly the Jobs with these names.
    pub(crate) async fn jobs_are(&self, name: &str, expected: &[&str]) {
        until(&format!("Jobs {expected:?}"), async || {
            let jobs = self.list::<Job>(name).await;
            (jobs.iter().map(ResourceExt::name_any).collect::<Vec<_>>() == expected).then_some(())
        })
        .await;
    }

    /// Sets whether the containers of a workflow are suspended.
    pub(crate) async fn suspend(&self, name: &str, is_suspended: bool) {
        let value = is_suspended.to_string();
        let annotations = json!({"nnf.cray.hpe.com/suspend-containers": value});
        self.patch::<Workflow>(name, json!({"metadata": {"annotations": annotations}})).await;
    }

    /// Places the pods on nodes that are named after their rabbits, as a scheduler does. One kubelet on this
    /// port serves all nodes.
    pub(crate) async fn place(&self, name: &str, port: u16) {
        for pod in self.list::<Pod>(name).await {
            let node = pod.spec.as_ref().unwrap().hostname.clone().unwrap();
            let object = json!({"metadata": {"name": node}, "status": {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            }});
            let nodes: Api<Node> = Api::all(self.client.clone());
            nodes.create(&PostParams::default(), &from_value(object).unwrap()).await.unwrap();
            let pods = self.api::<Pod>("default");
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.name_any()},
                                 "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
            let parameters = PostParams::default();
            let bound: Value = pods
                .create_subresource("binding", &pod.name_any(), &parameters, &binding)
                .await
                .unwrap();
            assert_eq!(bound["status"], "Success", "{bound:#}");
        }
    }

    /// Keeps deleted pods by a finalizer, as a kubelet does while containers end; or removes that finalizer.
    pub(crate) async fn hold(&self, name: &str, is_held: bool) {
        for pod in self.list::<Pod>(name).await {
            let mut finalizers = pod.finalizers().to_vec();
            finalizers.retain(|name| name != "test/kubelet");
            finalizers.extend(is_held.then(|| "test/kubelet".to_owned()));
            self.patch::<Pod>(&pod.name_any(), json!({"metadata": {"finalizers": finalizers}}))
                .await;
        }
    }

    /// Deletes a workflow, and waits until nothing of it is left.
    pub(crate) async fn remove(&self, name: &str) {
        self.api::<Workflow>("default").delete(name, &DeleteParams::default()).await.unwrap();
        until(&format!("nothing of {name} to be left"), async || {
            let left = self.list::<Job>(name).await.len()
                + self.list::<Pod>(name).await.len()
                + self.list::<Service>(name).await.len()
                + self.list::<NetworkPolicy>(name).await.len()
                + self.list::<ConfigMap>(name).await.len()
                + self.list::<Secret>(name).await.len();
            let is_gone = self.api::<Workflow>("default").get_opt(name).await.unwrap().is_none();
            (left == 0 && is_gone).then_some(())
        })
        .await;
        let ports = self.api::<api::NnfPortManager>("r").get("nnf-port-manager").await.unwrap();
        assert!(ports.status.unwrap().allocations.is_empty(), "{name} left a port");
    }
}

/// Repeats `look` until it returns a value; panics after [`PATIENCE`].
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let found = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    found.await.unwrap_or_else(|_| panic!("{what}: did not happen in {PATIENCE:?}"))
}

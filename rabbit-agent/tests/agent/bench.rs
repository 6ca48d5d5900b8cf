//! A rabbit for tests: an API in this process, drives in memory, and the agent that uses both.

use controller::Object as Kind;
use std::{
    fmt::Debug,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use agent::{
    records::MountRecords,
    site::{IndexRoot, Side, Site},
    volumes::Volumes,
};
use api::{
    ClientMount, NnfNode, NnfNodeBlockStorage, NnfNodeStorage, NnfStorageProfile,
    SystemConfiguration,
};
use clap::Parser;
use daemon::End;
use fence::FenceConfig;
use futures::{StreamExt, TryStreamExt};
use http::Method;
use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    client::Body,
    runtime::wait::await_condition,
};
use kubeapi::Identity;
use rabbit_agent::{
    config::{Args, Config, Rabbit},
    core::status::AgentStatus,
    kinds::{
        block_storage::desired::AllocationPolicy, container::args::ContainerConfig,
        lustre_mgt::args::Mgs, movement::args::MovementConfig,
        node_storage::desired::TemporaryRoot,
    },
    preview::serve::{Planner, serve_at},
    work,
};
use serde_json::{Value, json};
use storage::{
    Desired, Host, Observed, Step,
    desired::{AllowedRoots, MountPoint, Spread},
    fake::FakeHost,
    host::{ObserveError, StepError},
};
use tests::server::{Server, install_crds};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
};
use tower::service_fn;

pub(crate) const RABBIT: &str = "rabbit-1";
pub(crate) const NAME: &str = "default-job-7-0-xfs-0";
pub(crate) const MOUNT: &str = "default-job-7-0-servers";
const OWNER: &str = "a4f0c1de-5d7f-4c1b-9f6e-0c0e7d0f8a11";
const TREE: &str = "/mnt/nnf/3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21-0";

/// Longest wait of a test. Only a failing test waits that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Maximum number of requests that the agent may send during one wait; after more requests the test gives up.
const MAX_REQUESTS: usize = 2000;

/// Longest run of one podman command. A busy machine needs long to start a container, and the agent
/// sends no requests meanwhile.
const PODMAN: Duration = Duration::from_secs(300);

/// The fake node, and a record of each observation.
#[derive(Debug)]
struct RecordingHost {
    host: Arc<FakeHost>,
    observations: Arc<Mutex<Vec<Desired>>>,
    mounted: watch::Sender<usize>,
    unmounted: watch::Sender<usize>,
    trouble: Arc<Mutex<Trouble>>,
    jam: Arc<Jam>,
}

type StepPredicate = fn(&Step) -> bool;

/// Blocks the steps that match the predicate.
#[derive(Debug, Default)]
struct Jam {
    is_jammed: Mutex<Option<StepPredicate>>,
    over: Condvar,
}

/// Unblocks the jammed steps when it is dropped.
pub(crate) struct Jammed(Arc<Jam>);

impl Drop for Jammed {
    fn drop(&mut self) {
        *self.0.is_jammed.lock().unwrap() = None;
        self.0.over.notify_all();
    }
}

/// Faults that a test adds to the drives in memory and to the agent.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// The first drive does not answer.
    pub(crate) fault: bool,
    /// The step to block next.
    held: Option<Held>,
    /// Observations in which the agent panics.
    pub(crate) bug: Option<fn(&Desired) -> bool>,
}

/// A step to block.
#[derive(Debug)]
struct Held {
    matches: fn(&Step) -> bool,
    /// Notified when the step begins to wait.
    begun: oneshot::Sender<()>,
    /// The step waits until the sender of this channel is dropped.
    until: mpsc::Receiver<()>,
}

impl Host for RecordingHost {
    fn observe(&self, desired: &Desired) -> Result<Observed, ObserveError> {
        self.observations.lock().unwrap().push(desired.clone());
        let bug = self.trouble.lock().unwrap().bug;
        assert!(!bug.is_some_and(|applies| applies(desired)), "a bug in an observation");
        let mut seen = self.host.observe(desired)?;
        let is_faulty = self.trouble.lock().unwrap().fault;
        // Only observations of drives are faulty: an observation of a file system does not read the drives.
        if let Some(drive) = seen.drives.first_mut().filter(|_| is_faulty) {
            drive.fault = Some("it does not answer".into());
            let is_on_drive =
                |namespace: &&mut storage::observed::Namespace| namespace.id.subsystem == drive.nqn;
            seen.namespaces
                .iter_mut()
                .filter(is_on_drive)
                .for_each(|namespace| namespace.access.clear());
        }
        Ok(seen)
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        let held = self.trouble.lock().unwrap().held.take_if(|held| (held.matches)(step));
        if let Some(Held { begun, until, .. }) = held {
            begun.send(()).unwrap();
            assert!(until.recv().is_err());
        }
        let jammed =
            |steps: &mut Option<StepPredicate>| steps.is_some_and(|is_jammed| is_jammed(step));
        drop(self.jam.over.wait_while(self.jam.is_jammed.lock().unwrap(), jammed).unwrap());
        self.host.apply(step)?;
        match step {
            Step::Mount { .. } => self.mounted.send_modify(|count| *count += 1),
            Step::Unmount { .. } => self.unmounted.send_modify(|count| *count += 1),
            _ => {}
        }
        Ok(())
    }
}

pub(crate) struct Bench {
    pub(crate) client: Client,
    pub(crate) observations: Arc<Mutex<Vec<Desired>>>,
    /// Number of mounts that the agent has made.
    pub(crate) mounted: watch::Sender<usize>,
    pub(crate) unmounted: watch::Sender<usize>,
    pub(crate) host: Arc<FakeHost>,
    pub(crate) trouble: Arc<Mutex<Trouble>>,
    jam: Arc<Jam>,
    pub(crate) status: AgentStatus,
    pub(crate) volumes: Volumes,
    pub(crate) index_root: Option<IndexRoot>,
    /// Whether the agent fetches job packages although it runs no containers.
    pub(crate) fetches_packages: bool,
    /// The podman program that runs containers.
    pub(crate) podman: Option<PathBuf>,
    /// How data is moved.
    pub(crate) movements: MovementConfig,
    /// Directories beneath which storage is mounted, if not the usual ones.
    pub(crate) mount_roots: Option<AllowedRoots>,
    /// How many agents this bench has started.
    starts: u32,
    agent: Option<Agent>,
    gate: Gate,
    pub(crate) server: Server,
    pub(crate) directory: tempfile::TempDir,
}

/// A function that may answer a request of the agent in place of the API.
type Refusal = dyn Fn(&http::Request<Body>) -> Option<Refused> + Send + Sync;

/// How a request fails before it reaches the API.
pub(crate) enum Refused {
    /// An answer with this `Status`.
    Status(u16, &'static str),
    /// No answer.
    Away,
}

/// The tower service between the agent and the API.
#[derive(Clone, Default)]
struct Gate {
    refusal: Arc<Mutex<Option<Box<Refusal>>>>,
    requests: watch::Sender<Vec<(Method, String)>>,
}

impl Gate {
    fn client(&self, client: Client) -> Client {
        let gate = self.clone();
        let service = service_fn(move |request: http::Request<Body>| {
            let sent = (request.method().clone(), request.uri().path().to_owned());
            let refused = gate.refusal.lock().unwrap().as_ref().and_then(|refuse| refuse(&request));
            gate.requests.send_modify(|requests| requests.push(sent));
            let client = client.clone();
            async move {
                match refused {
                    None => client.send(request).await,
                    Some(refused) => refused.answer(),
                }
            }
        });
        Client::new(service, "default")
    }
}

impl Refused {
    fn answer(self) -> kube::Result<http::Response<Body>> {
        match self {
            Self::Away => Err(kube::Error::Service(io::Error::from_raw_os_error(111).into())),
            Self::Status(code, message) => {
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message
                });
                let body = Body::from(status.to_string().into_bytes());
                Ok(http::Response::builder().status(code).body(body).unwrap())
            }
        }
    }
}

struct Agent {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<End, ()>>,
}

pub(crate) fn roots(paths: &[&str]) -> AllowedRoots {
    AllowedRoots::new(paths.iter().map(PathBuf::from)).unwrap()
}

/// Returns the configuration of an agent whose command line gives only the name of the node.
fn default_config() -> Config {
    Args::parse_from(["rabbit-agent", "--node", RABBIT]).check().unwrap()
}

pub(crate) fn rabbit(directory: &Path) -> Rabbit {
    Rabbit {
        site: Site {
            node: RABBIT.parse().unwrap(),
            side: Side::Rabbit,
            roots: default_config().rabbit.site.roots,
            index_root: None,
            volumes: Volumes::Plain,
        },
        temporary: TemporaryRoot { path: "/mnt/temp".into(), roots: roots(&["/mnt/temp"]) },
        policy: AllocationPolicy { spread: Spread::ONE, replace: true },
        pod: "pod-0".into(),
        fence: FenceConfig {
            requests: directory.join("requests"),
            responses: directory.join("responses"),
            dlm_tool: directory.join("dlm_tool").display().to_string(),
            corosync: directory.join("corosync.conf"),
        },
        mgs: Mgs {
            erase: directory.join("erase").display().to_string(),
            deadline: Duration::from_secs(20),
        },
        containers: None,
        packages: None,
        movements: crate::movements::config(directory),
    }
}

pub(crate) fn path(text: &str) -> MountPoint {
    MountPoint::parse(text, &default_config().storage.roots).unwrap()
}

pub(crate) fn in_tree(name: &str) -> String {
    format!("{TREE}/{name}")
}

impl Bench {
    /// Creates a bench with a running agent, two drives of 1 GiB, three computes in slots 0, 1 and 6,
    /// and a pinned profile.
    pub(crate) async fn new() -> Self {
        let mut bench = Self::bare().await;
        bench.site().await;
        bench.start();
        bench
    }

    /// Creates a bench with only an API and drives.
    pub(crate) async fn bare() -> Self {
        Self::with_crds(strict_crds()).await
    }

    /// Creates a bench with only drives and an API with these definitions of the kinds.
    pub(crate) async fn with_crds(crds: Vec<Value>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::of_this_run();
        let client = match server.real() {
            Some(_) => real(&server, crds).await,
            None => embedded(directory.path(), crds),
        };
        let node = RABBIT.parse().unwrap();
        let host =
            Arc::new(FakeHost::with_drives(node, default_config().storage.roots, 2, 1 << 30));
        let bench = Self {
            client,
            observations: Arc::default(),
            mounted: watch::Sender::default(),
            unmounted: watch::Sender::default(),
            host,
            trouble: Arc::default(),
            jam: Arc::default(),
            status: AgentStatus::default(),
            volumes: Volumes::Plain,
            index_root: None,
            podman: None,
            movements: crate::movements::config(directory.path()),
            mount_roots: None,
            fetches_packages: false,
            starts: 0,
            agent: None,
            gate: Gate::default(),
            server,
            directory,
        };
        for name in [RABBIT, "rabbit-2", "compute-01", "compute-02", "compute-03"] {
            let namespace: Namespace =
                serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            let created =
                Api::all(bench.client.clone()).create(&PostParams::default(), &namespace).await;
            // A real API server has the namespaces already.
            assert!(created.is_ok() || bench.server.real().is_some(), "{created:?}");
        }
        bench
    }

    /// Creates the site's objects: three computes in slots 0, 1 and 6, and a pinned profile.
    pub(crate) async fn site(&self) {
        let computes = system(&[("compute-01", 0), ("compute-02", 1), ("compute-03", 6)]);
        self.make::<SystemConfiguration>("default", computes).await;
        self.make::<NnfStorageProfile>("default", profile()).await;
    }

    /// Lets `refusal` refuse requests of the agent from now on; a request for which it returns `None` reaches the API.
    pub(crate) fn refuse(
        &self,
        refusal: impl Fn(&http::Request<Body>) -> Option<Refused> + Send + Sync + 'static,
    ) {
        *self.gate.refusal.lock().unwrap() = Some(Box::new(refusal));
    }

    /// Lets the agent's requests reach the API again.
    pub(crate) fn admit(&self) {
        *self.gate.refusal.lock().unwrap() = None;
    }

    /// Returns all requests of the agent so far: method and path.
    pub(crate) fn requests(&self) -> Vec<(Method, String)> {
        self.gate.requests.borrow().clone()
    }

    /// Waits until the agent has sent this many requests that match `holds`.
    pub(crate) async fn until_requested(
        &self,
        count: usize,
        holds: impl Fn(&Method, &str) -> bool,
    ) {
        let mut requests = self.gate.requests.subscribe();
        let enough = requests.wait_for(|requests| {
            requests.iter().filter(|(method, path)| holds(method, path)).count() >= count
        });
        assert!(
            tokio::time::timeout(PATIENCE, enough).await.is_ok(),
            "the agent sent too few requests"
        );
    }

    /// Blocks the next step that `is_held` matches, until the first returned value is dropped. The second returned
    /// value reports that the step waits.
    pub(crate) fn hold(
        &self,
        is_held: fn(&Step) -> bool,
    ) -> (mpsc::Sender<()>, oneshot::Receiver<()>) {
        let (hold, until) = mpsc::channel();
        let (begun, waits) = oneshot::channel();
        self.trouble.lock().unwrap().held = Some(Held { matches: is_held, begun, until });
        (hold, waits)
    }

    /// Blocks every step that `is_jammed` matches.
    pub(crate) fn jam(&self, is_jammed: fn(&Step) -> bool) -> Jammed {
        *self.jam.is_jammed.lock().unwrap() = Some(is_jammed);
        Jammed(self.jam.clone())
    }

    pub(crate) fn start(&mut self) {
        let (stop, stopped) = oneshot::channel();
        let stop_agent = async move {
            drop(stopped.await);
            Ok(End::Stopped)
        };
        let host = Arc::new(RecordingHost {
            host: self.host.clone(),
            observations: self.observations.clone(),
            mounted: self.mounted.clone(),
            unmounted: self.unmounted.clone(),
            trouble: self.trouble.clone(),
            jam: self.jam.clone(),
        });
        let config = self.config();
        let records = MountRecords::open(self.directory.path()).unwrap();
        // The socket of an agent that has just stopped may still be open.
        self.starts += 1;
        let (planner, snapshot_requests) = Planner::new();
        serve_at(Some(&self.socket()), &planner).unwrap();
        let task = tokio::spawn(work(
            config,
            host,
            (self.gate.client(self.client.clone()), records),
            self.status.clone(),
            snapshot_requests,
            stop_agent,
        ));
        self.agent = Some(Agent { stop, task });
    }

    /// Returns the settings of the agent.
    pub(crate) fn config(&self) -> Rabbit {
        let mut config = rabbit(self.directory.path());
        config.site.volumes = self.volumes;
        config.site.index_root.clone_from(&self.index_root);
        config.site.roots = self.mount_roots.clone().unwrap_or(config.site.roots);
        config.movements = self.movements.clone();
        let runs = self.podman.is_some() || self.fetches_packages;
        config.packages = runs.then(|| self.directory.path().join("packages"));
        config.containers = self.podman.as_ref().map(|podman| ContainerConfig {
            program: podman.display().to_string(),
            deadline: PODMAN,
            pull: PODMAN,
            podhelper: tests::program::binary("podhelper").unwrap_or_default(),
            files: self.directory.path().join("containers"),
            packages: self.directory.path().join("packages"),
        });
        config
    }

    /// Path of the agent's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join(format!("agent-{}.sock", self.starts))
    }

    pub(crate) async fn stop(&mut self) {
        let agent = self.agent.take().expect("the agent runs");
        agent.stop.send(()).unwrap();
        assert_eq!(agent.task.await.unwrap(), Ok(End::Stopped));
    }

    pub(crate) fn api<K: Kind>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(crate) async fn make<K: Kind>(&self, namespace: &str, object: Value) -> K {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>(namespace).create(&PostParams::default(), &object).await.unwrap()
    }

    pub(crate) async fn change<K: Kind>(&self, name: &str, patch: Value) -> K {
        self.api::<K>(RABBIT)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap()
    }

    /// Merges a patch into the object's status.
    pub(crate) async fn status<K: Kind>(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.api::<K>(RABBIT).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) async fn get<K: Kind>(&self, name: &str) -> K {
        self.api::<K>(RABBIT).get(name).await.unwrap()
    }

    /// Returns how long the agent may send no request before a test gives up.
    fn silence(&self) -> Duration {
        if self.podman.is_some() { PODMAN + PATIENCE } else { PATIENCE }
    }

    /// Waits for the future `waited`, as long as the agent sends requests to the API. Returns `None` after too long a
    /// time without a request, or after too many requests.
    async fn while_agent_works<T>(&self, waited: impl Future<Output = T>) -> Option<T> {
        let mut requests = self.gate.requests.subscribe();
        let mut waited = std::pin::pin!(waited);
        for _ in 0..MAX_REQUESTS {
            tokio::select! {
                done = &mut waited => return Some(done),
                sent = tokio::time::timeout(self.silence(), requests.changed()) => {
                    sent.ok()?.ok()?;
                }
            }
        }
        None
    }

    /// Waits until `holds` is true of the object, and returns the object.
    pub(crate) async fn until<K: Kind>(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&K) -> bool,
    ) -> K {
        let api = self.api::<K>(RABBIT);
        let waited =
            await_condition(api.clone(), name, |object: Option<&K>| object.is_some_and(&holds));
        match self.while_agent_works(waited).await {
            Some(found) => found.unwrap().unwrap(),
            None => panic!("{name} is not {what}: {:#?}", api.get_opt(name).await),
        }
    }

    /// Waits until the agent has made this many mounts since the bench was set up.
    pub(crate) async fn until_mounts(&self, count: usize) {
        until_count(&self.mounted, count).await;
    }

    /// Waits until the agent has removed this many mounts since the bench was set up.
    pub(crate) async fn until_unmounts(&self, count: usize) {
        until_count(&self.unmounted, count).await;
    }

    pub(crate) async fn delete<K: Kind>(&self, name: &str) {
        self.api::<K>(RABBIT).delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn until_gone<K: Kind>(&self, name: &str) {
        let api = self.api::<K>(RABBIT);
        let waited = await_condition(api.clone(), name, |object: Option<&K>| object.is_none());
        if self.while_agent_works(waited).await.is_none() {
            panic!("{name} is not gone: {:#?}", api.get_opt(name).await);
        }
    }

    /// Collects all versions of an object from its creation to its deletion.
    pub(crate) fn history<K: Kind>(&self, made: &K) -> JoinHandle<Vec<K>> {
        let api = self.api::<K>(RABBIT);
        let params = WatchParams::default()
            .fields(&format!("metadata.name={}", made.name_any()))
            .timeout(120);
        let version = made.resource_version().unwrap();
        tokio::spawn(async move {
            let mut seen = Vec::new();
            let mut events = api.watch(&params, &version).await.unwrap().boxed();
            while let Some(event) = events.try_next().await.unwrap() {
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => seen.push(object),
                    WatchEvent::Deleted(object) => {
                        seen.push(object);
                        break;
                    }
                    WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
                }
            }
            seen
        })
    }

    /// Creates block storage and file systems, and waits until both are ready.
    pub(crate) async fn file_systems(&self, count: usize) -> (NnfNodeBlockStorage, NnfNodeStorage) {
        let access = vec![(1_i64 << 20, &[RABBIT][..]); count];
        self.make::<NnfNodeBlockStorage>(RABBIT, block_storage(NAME, &access)).await;
        self.make::<NnfNodeStorage>(RABBIT, node_storage(NAME, count)).await;
        let storage = self.until(NAME, "ready", storage_ready).await;
        (self.get(NAME).await, storage)
    }
}

/// Starts an API in this process.
fn embedded(directory: &Path, crds: Vec<Value>) -> Client {
    let mut config = kubeapi::Config::new(directory.join("api"));
    config.crds = crds;
    let served = kubeapi::Api::open(config).unwrap();
    Client::new(served.service(Identity { user: "test".into() }), "default")
}

/// Returns our CRDs with the rules of the sites' CRDs added: an object that the agent writes must be valid under both.
pub(crate) fn strict_crds() -> Vec<Value> {
    site_rules::strict(api::crd_values())
}

/// Prepares the API that `make kube` started, so that it has only these definitions.
async fn real(server: &Server, crds: Vec<Value>) -> Client {
    let nodes = [RABBIT, "rabbit-2", "compute-01", "compute-02", "compute-03"].map(str::to_owned);
    thread::scope(|scope| scope.spawn(|| server.prepare(&nodes)).join()).unwrap().unwrap();
    let client = control_plane::client(&server.real().unwrap().administrator).await.unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name_of = |crd: &Value| crd["metadata"]["name"].as_str().unwrap().to_owned();
    let usual = strict_crds();
    for crd in &usual {
        match crds.iter().find(|known| name_of(known) == name_of(crd)) {
            Some(same) if same == crd => {}
            Some(other) => install_crds(&client, std::slice::from_ref(other)).await.unwrap(),
            None => undefine(&definitions, &name_of(crd)).await,
        }
    }
    for more in crds.iter().filter(|crd| !usual.iter().any(|other| name_of(other) == name_of(crd)))
    {
        // The deletion of the definitions also deletes the objects of earlier tests.
        undefine(&definitions, &name_of(more)).await;
        install_crds(&client, std::slice::from_ref(more)).await.unwrap();
    }
    client
}

/// Deletes a kind and all its objects from the API, if the API has the kind.
async fn undefine(definitions: &Api<CustomResourceDefinition>, name: &str) {
    match definitions.delete(name, &DeleteParams::default()).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => return,
        Err(error) => panic!("delete {name}: {error}"),
    }
    await_condition(definitions.clone(), name, |crd: Option<&_>| crd.is_none()).await.unwrap();
}

/// Repeats a request while the API rejects it because of definitions that were replaced: a real server applies the old
/// definitions until it has read the new ones.
pub(crate) async fn retry_until_served<T>(ask: impl AsyncFn() -> kube::Result<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn until_count(counted: &watch::Sender<usize>, count: usize) {
    let mut counter = counted.subscribe();
    let waited = tokio::time::timeout(PATIENCE, counter.wait_for(|made| *made >= count)).await;
    assert!(
        waited.is_ok(),
        "the agent made or removed only {} of {count} mounts",
        *counted.borrow()
    );
}

pub(crate) fn block_ready(object: &NnfNodeBlockStorage) -> bool {
    object.status.as_ref().is_some_and(|status| status.ready)
}

pub(crate) fn block_failed(object: &NnfNodeBlockStorage) -> bool {
    object.status.as_ref().is_some_and(|status| status.error.is_some())
}

pub(crate) fn storage_ready(object: &NnfNodeStorage) -> bool {
    object.status.as_ref().is_some_and(|status| status.ready)
}

pub(crate) fn storage_failed(object: &NnfNodeStorage) -> bool {
    object.status.as_ref().is_some_and(|status| status.error.is_some())
}

pub(crate) fn mount_ready(object: &ClientMount) -> bool {
    object.status.as_ref().is_some_and(|status| status.all_ready)
}

pub(crate) fn mount_failed(object: &ClientMount) -> bool {
    object.status.as_ref().is_some_and(|status| status.error.is_some())
}

pub(crate) fn node_reported(object: &NnfNode) -> bool {
    object.status.as_ref().is_some_and(|status| !status.drives.is_empty())
}

pub(crate) fn system(computes: &[(&str, i64)]) -> Value {
    let computes: Vec<_> =
        computes.iter().map(|(name, index)| json!({"name": name, "index": index})).collect();
    json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "SystemConfiguration",
        "metadata": {"name": "default", "namespace": "default"},
        "spec": {"portsCooldownInSeconds": 0, "storageNodes": [{"type": "Rabbit", "name": RABBIT, "computesAccess": computes}]}
    })
}

fn labels() -> Value {
    json!({
        "dataworkflowservices.github.io/workflow.uid": "3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21",
        "dataworkflowservices.github.io/owner.uid": OWNER,
        "nnf.cray.hpe.com/directive_index": "0",
        "nnf.cray.hpe.com/job_id": "287341",
        "nnf.cray.hpe.com/pinned_storage_profile_name": "job-7-0",
        "nnf.cray.hpe.com/pinned_storage_profile_namespace": "default",
        "nnf.cray.hpe.com/target_directive_index": "0",
        "nnf.cray.hpe.com/target_owner_uid": OWNER
    })
}

pub(crate) fn block_storage(name: &str, allocations: &[(i64, &[&str])]) -> Value {
    let allocations: Vec<_> = allocations
        .iter()
        .map(|(capacity, access)| json!({"capacity": capacity, "access": access}))
        .collect();
    json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfNodeBlockStorage",
        "metadata": {"name": name, "namespace": RABBIT, "labels": labels()},
        "spec": {"sharedAllocation": false, "allocations": allocations}
    })
}

pub(crate) fn node_storage(name: &str, count: usize) -> Value {
    json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfNodeStorage",
        "metadata": {"name": name, "namespace": RABBIT, "labels": labels()},
        "spec": {
            "count": count, "sharedAllocation": false, "capacity": 1 << 20, "userID": 1050, "groupID": 1051, "fileSystemType": "xfs",
            "blockReference": {"kind": "NnfNodeBlockStorage", "name": name, "namespace": RABBIT}
        }
    })
}

pub(crate) fn profile() -> Value {
    json!({
        "apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfStorageProfile",
        "metadata": {"name": "job-7-0", "namespace": "default"},
        "data": {"default": false, "pinned": true, "xfsStorage": {
            "blockDeviceCommands": {"sharedVg": false},
            "fileSystemCommands": {"rabbitCommands": {"mkfs": "$DEVICE", "mount": "$DEVICE $MOUNT_PATH", "unmount": "$MOUNT_PATH"}},
            "userCommands": {"postSetup": ["chown $USERID:$GROUPID $MOUNT_PATH"], "preTeardown": ["true"]}
        }, "lustreStorage": {"clientOptions": {"commandlines": {
            "mountRabbit": "$DEVICE $MOUNT_PATH", "unmountRabbit": "$MOUNT_PATH"
        }}}}
    })
}

pub(crate) fn client_mount(name: &str, computes: &[&str]) -> Value {
    let mounts: Vec<_> = computes
        .iter()
        .enumerate()
        .map(|(index, compute)| {
            json!({
                "mountPath": in_tree(&format!("node-{index}")), "compute": compute,
                "setPermissions": false, "options": "", "type": "xfs", "targetType": "directory",
                "device": {"type": "reference", "deviceReference": {
                    "objectReference": {"kind": "NnfNodeStorage", "name": NAME, "namespace": RABBIT}, "data": index}}
            })
        })
        .collect();
    json!({
        "apiVersion": "dataworkflowservices.github.io/v1alpha7", "kind": "ClientMount",
        "metadata": {"name": name, "namespace": RABBIT, "labels": labels()},
        "spec": {"node": RABBIT, "desiredState": "mounted", "mounts": mounts}
    })
}

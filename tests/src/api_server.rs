//! An API server over TLS, for the suites whose agents use the API directly: Warren's embedded server or, with
//! `WARREN_TEST_SERVER=real`, a real kube-apiserver.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    thread::JoinHandle,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use control_plane::{AuditEvent, ControlPlane, Login, Settings, client as admin};
use kube::{
    Api, Client, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
    },
    config::Kubeconfig,
};
use kubeapi::Credentials;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::{cluster::PATIENCE, program::until};

/// Namespace of the service account that all computes use, as at the sites.
const SYSTEM: &str = "nnf-system";
const ACCOUNT: &str = "nnf-clientmount";

/// An API server, with the credentials of the administrator and of the computes.
#[derive(Debug)]
pub struct ApiServer {
    directory: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Embedded(Option<Embedded>, SocketAddr),
    Real(Box<ControlPlane>),
}

/// kubeapi in a thread of this process.
#[derive(Debug)]
struct Embedded {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl ApiServer {
    /// Starts the server that `WARREN_TEST_SERVER` selects, without CRDs.
    ///
    /// # Errors
    /// When the server does not start.
    pub fn start(directory: &Path) -> anyhow::Result<Self> {
        let real = std::env::var("WARREN_TEST_SERVER").is_ok_and(|server| server == "real");
        if real { Self::real(directory) } else { Self::embedded(directory) }
    }

    /// Starts a real kube-apiserver.
    ///
    /// # Errors
    /// When the server does not start.
    pub fn real(directory: &Path) -> anyhow::Result<Self> {
        let directory = make_directory(directory)?;
        let plane = ControlPlane::start(&directory, Settings::default())?;
        Self::with_identity(directory, Kind::Real(Box::new(plane)))
    }

    /// Starts the embedded server in this process.
    ///
    /// # Errors
    /// When the server does not start.
    pub fn embedded(directory: &Path) -> anyhow::Result<Self> {
        let directory = make_directory(directory)?;
        let address = ([127, 0, 0, 1], control_plane::free_port()?).into();
        let server = Embedded::start(&directory, address)?;
        Self::with_identity(directory, Kind::Embedded(Some(server), address))
    }

    fn with_identity(directory: PathBuf, kind: Kind) -> anyhow::Result<Self> {
        let server = Self { directory, kind };
        server.make_identity()?;
        Ok(server)
    }

    /// Returns whether this server is a real kube-apiserver.
    #[must_use]
    pub fn is_real(&self) -> bool {
        matches!(self.kind, Kind::Real(_))
    }

    /// Returns the server's port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        match &self.kind {
            Kind::Embedded(_, address) => address.port(),
            Kind::Real(plane) => plane.port(),
        }
    }

    /// Returns the path of the administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Returns the current CA certificate, PEM.
    ///
    /// # Errors
    /// When the certificate cannot be read.
    pub fn authority(&self) -> anyhow::Result<Vec<u8>> {
        match &self.kind {
            Kind::Embedded(..) => Ok(embedded(&self.directory)?.1.into_bytes()),
            Kind::Real(plane) => fs::read(plane.authority_file()).context("read the CA"),
        }
    }

    /// Returns a token of the service account that all computes use.
    ///
    /// # Errors
    /// When the server has issued no token.
    pub fn token(&self) -> anyhow::Result<String> {
        match &self.kind {
            Kind::Embedded(..) => Ok(embedded(&self.directory)?.0),
            Kind::Real(plane) => block_on(plane.token(SYSTEM, ACCOUNT, Duration::from_secs(3600))),
        }
    }

    /// Returns the requests that the computes' service account has sent so far to a real server, in the
    /// order of their arrival.
    ///
    /// # Errors
    /// When the server is not a real one, or its audit log cannot be read.
    pub fn requests_of_computes(&self) -> anyhow::Result<Vec<AuditEvent>> {
        let Kind::Real(plane) = &self.kind else { bail!("the embedded server has no audit log") };
        let user = format!("system:serviceaccount:{SYSTEM}:{ACCOUNT}");
        let mut requests = plane.audit()?;
        requests.retain(|event| event.user == user);
        requests.sort_by(|first, second| first.received.cmp(&second.received));
        Ok(requests)
    }

    /// Revokes every token that the computes have. The embedded server also gets a new CA; a real server keeps its CA.
    ///
    /// # Errors
    /// When the server refuses one of the requests for the revocation.
    pub fn revoke(&mut self) -> anyhow::Result<()> {
        let old = self.token()?;
        if let Kind::Embedded(..) = &self.kind {
            self.stop()?;
            fs::remove_file(self.directory.join("credentials.json"))
                .context("delete the credentials")?;
            return self.resume();
        }
        // Creates the account again: a token of the deleted account is not valid for a new account of the same name.
        self.send_request(async |client| {
            let accounts = resource(&client, "v1", "ServiceAccount", Some(SYSTEM));
            accounts.delete(ACCOUNT, &DeleteParams::default()).await.map(drop)
        })?;
        self.create(&json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "namespace": SYSTEM},
        }))?;
        let own = self.directory.join("old.kubeconfig");
        let Kind::Real(plane) = &self.kind else { return Ok(()) };
        plane.kubeconfig_for(&own, &Login::Token(old))?;
        until("the old token to be refused", PATIENCE, || {
            let answer = block_on(async {
                let mounts = resource(&admin(&own).await?, DWS, "ClientMount", Some("default"));
                anyhow::Ok(mounts.get_opt("nothing").await)
            })?;
            ensure!(matches!(&answer, Err(kube::Error::Api(status)) if status.code == 401));
            Ok(())
        })
    }

    /// Stops the server abruptly, as a power cut of its host would. The server's data stay.
    ///
    /// # Errors
    /// When the server had ended before.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        match &mut self.kind {
            Kind::Embedded(server, _) => {
                let server = server.take().context("the server is stopped")?;
                // The message cannot be sent if the server has ended by itself; the thread then returns the reason.
                let _ = server.stop.send(());
                server.thread.join().map_err(|_| anyhow::anyhow!("the server panicked"))?
            }
            Kind::Real(plane) => {
                plane.kill_apiserver();
                Ok(())
            }
        }
    }

    /// Starts the stopped server again, at the same address.
    ///
    /// # Errors
    /// When the server does not start.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        match &mut self.kind {
            Kind::Embedded(server, address) => {
                *server = Some(Embedded::start(&self.directory, *address)?);
                Ok(())
            }
            Kind::Real(plane) => plane.start_apiserver(),
        }
    }

    /// Applies `change` to each of Warren's CRDs, installs them, and waits until the server serves their kinds.
    ///
    /// # Errors
    /// When the server refuses a CRD.
    pub fn install_crds(&self, change: impl Fn(&mut Value)) -> anyhow::Result<()> {
        for mut crd in api::crd::crd_values() {
            change(&mut crd);
            self.create(&crd)?;
        }
        until("the CRDs to be served", PATIENCE, || {
            self.send_request(async |client| {
                for (group, kind) in [(DWS, "ClientMount"), (NNF, "NnfStorageProfile")] {
                    let api = resource(&client, group, kind, None);
                    api.list(&kube::api::ListParams::default()).await?;
                }
                Ok(())
            })
        })
    }

    /// Creates an object on the server.
    ///
    /// # Errors
    /// When the server refuses the object.
    pub fn create(&self, object: &Value) -> anyhow::Result<Value> {
        self.send_request(async |client| {
            let object: DynamicObject =
                serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
            let api = api_of(&client, &object);
            let make_directory = api.create(&PostParams::default(), &object).await?;
            serde_json::to_value(make_directory).map_err(kube::Error::SerdeError)
        })
        .with_context(|| format!("create {}", object["metadata"]))
    }

    /// Replaces an object on the server.
    ///
    /// # Errors
    /// When the server refuses the object.
    pub fn replace(&self, object: &Value) -> anyhow::Result<Value> {
        self.send_request(async |client| {
            let object: DynamicObject =
                serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
            let api = api_of(&client, &object);
            let stored = api.replace(&object.name_any(), &PostParams::default(), &object).await?;
            serde_json::to_value(stored).map_err(kube::Error::SerdeError)
        })
        .with_context(|| format!("replace {}", object["metadata"]))
    }

    /// Returns an object, or `None` if it does not exist.
    ///
    /// # Errors
    /// When the request to the API fails.
    pub fn get(&self, like: &Value) -> anyhow::Result<Option<Value>> {
        self.send_request(async |client| {
            let object: DynamicObject =
                serde_json::from_value(like.clone()).map_err(kube::Error::SerdeError)?;
            let found = api_of(&client, &object).get_opt(&object.name_any()).await?;
            found.map(serde_json::to_value).transpose().map_err(kube::Error::SerdeError)
        })
    }

    /// Patches an object, or its status if `status` is set.
    ///
    /// # Errors
    /// When the server refuses the patch.
    pub fn patch(&self, like: &Value, change: &Value, status: bool) -> anyhow::Result<()> {
        self.send_request(async |client| {
            let object: DynamicObject =
                serde_json::from_value(like.clone()).map_err(kube::Error::SerdeError)?;
            let (api, name) = (api_of(&client, &object), object.name_any());
            let (parameters, patch) = (PatchParams::default(), Patch::Merge(change));
            if status {
                api.patch_status(&name, &parameters, &patch).await.map(drop)
            } else {
                api.patch(&name, &parameters, &patch).await.map(drop)
            }
        })
        .with_context(|| format!("patch {} with {change}", like["metadata"]))
    }

    /// Marks an object for deletion.
    ///
    /// # Errors
    /// When the server refuses the deletion.
    pub fn delete(&self, like: &Value) -> anyhow::Result<()> {
        self.send_request(async |client| {
            let object: DynamicObject =
                serde_json::from_value(like.clone()).map_err(kube::Error::SerdeError)?;
            let name = object.name_any();
            api_of(&client, &object).delete(&name, &DeleteParams::default()).await.map(drop)
        })
    }

    fn send_request<T>(
        &self,
        request: impl AsyncFnOnce(Client) -> kube::Result<T>,
    ) -> anyhow::Result<T> {
        block_on(async { Ok(request(admin(&self.kubeconfig()).await?).await?) })
    }

    /// Creates the computes' service account, with exactly the rights that sites grant to the Go daemon. Does nothing
    /// on the embedded server, which has no roles.
    fn make_identity(&self) -> anyhow::Result<()> {
        if !self.is_real() {
            return Ok(());
        }
        let rule = |resource: &str, group: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
        let rbac = "rbac.authorization.k8s.io";
        let (dws, nnf) = ("dataworkflowservices.github.io", "nnf.cray.hpe.com");
        for object in [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": SYSTEM}}),
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole",
                "metadata": {"name": "nnf-clientmount-role"},
                "rules": [
                    rule("clientmounts", dws, &["get", "list", "watch", "update", "patch"]),
                    rule("clientmounts/status", dws, &["get", "update", "patch"]),
                    rule("clientmounts/finalizers", dws, &["update"]),
                    rule("nnfstorageprofiles", nnf, &["get", "list", "watch"]),
                ],
            }),
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding",
                "metadata": {"name": "nnf-clientmount"},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "nnf-clientmount-role"},
                "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM}],
            }),
        ] {
            self.create(&object)?;
        }
        Ok(())
    }
}

const DWS: &str = "dataworkflowservices.github.io/v1alpha7";
const NNF: &str = "nnf.cray.hpe.com/v1alpha11";

impl Embedded {
    fn start(directory: &Path, address: SocketAddr) -> anyhow::Result<Self> {
        let credentials = Credentials::load_or_create(directory, address)?;
        credentials.write_kubeconfig(&directory.join("kubeconfig"))?;
        let api = loop {
            // Tries again if the store is locked: a child process of another test inherits this process's lock, and
            // holds it between fork(2) and execve(2).
            match kubeapi::Api::open(kubeapi::Config::new(directory)) {
                Err(error) if format!("{error:?}").contains("InUse") => std::thread::yield_now(),
                opened => break opened?,
            }
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let (bound, ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind(address).await.context("listen")?;
                // Tells the thread that started this one that the server listens.
                let _ = bound.send(());
                let stop = async { drop(stopped.await) };
                kubeapi::serve::tls(listener, api.clone(), &credentials, stop).await?;
                api.close();
                Ok(())
            })
        });
        ready.recv().context("the server did not start")?;
        Ok(Self { stop, thread })
    }
}

fn make_directory(directory: &Path) -> anyhow::Result<PathBuf> {
    let directory = directory.join("server");
    fs::create_dir_all(&directory).context("make the server's directory")?;
    Ok(directory)
}

/// Returns the embedded server's token and CA, from the kubeconfig that the server wrote.
fn embedded(directory: &Path) -> anyhow::Result<(String, String)> {
    let file = Kubeconfig::read_from(directory.join("kubeconfig")).context("read kubeconfig")?;
    let file = serde_json::to_value(file).context("read kubeconfig")?;
    let kept = fs::read(directory.join("credentials.json")).context("read the credentials")?;
    let kept: Value = serde_json::from_slice(&kept).context("read the credentials")?;
    ensure!(file["users"][0]["name"] == "admin", "not the kubeconfig of the embedded server");
    let text = |field: &str| kept[field].as_str().map(str::to_owned).context("no such credential");
    Ok((text("token")?, text("ca_certificate")?))
}

fn api_of(client: &Client, object: &DynamicObject) -> Api<DynamicObject> {
    let types = object.types.clone().unwrap_or_default();
    resource(client, &types.api_version, &types.kind, object.namespace().as_deref())
}

fn resource(
    client: &Client,
    api_version: &str,
    kind: &str,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let mut resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    // The crate kube derives a plural name from the kind's name, which is wrong for those of our kinds that are plurals
    // already.
    if let Some(crd) = api::crd_values().iter().find(|crd| crd["spec"]["names"]["kind"] == kind) {
        resource.plural = crd["spec"]["names"]["plural"].as_str().unwrap_or_default().to_owned();
    }
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

fn block_on<T>(request: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(request)
}

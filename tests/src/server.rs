//! The Kubernetes API of a test cluster. Before any node starts, this module installs the CRDs and creates a namespace
//! per node, as a site's administrators and controllers do.

use std::{
    collections::BTreeMap,
    env,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Context;
use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition as Crd,
};
use kube::{
    Api, Client, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams,
        PostParams,
    },
    runtime::{conditions::is_crd_established, wait::await_condition},
};
use serde_json::{Value, json};

use crate::webhook::{Webhook, packaged};

/// Time after which a kube-apiserver applies new admission policies: it reads them once a second (apiserver,
/// pkg/admission/plugin/policy/generic/policy_source.go) and then compiles them. No object says that it has done so.
const POLICIES_ACTIVE: Duration = Duration::from_secs(3);

/// Longest time until a CRD is served. A real server takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Lets one test at a time use the shared server: names of nodes are the same in every test, and a real
/// server outlives a test.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The Kubernetes API that the programs work on.
#[derive(Debug)]
pub enum Server {
    /// The API that the coordinator serves itself.
    Embedded,
    /// A real Kubernetes API.
    Real(RealServer),
}

/// A real Kubernetes API. No other test uses it until this value is dropped.
#[derive(Debug)]
pub struct RealServer {
    /// The administrator's kubeconfig. Tests that play a site's controllers use it.
    pub administrator: PathBuf,
    /// The kubeconfig of each of Warren's programs.
    pub roles: Roles,
    turn: Option<MutexGuard<'static, ()>>,
}

/// The users as which Warren's programs log in to a real server, as kubeconfigs.
#[derive(Debug, Clone, Default)]
pub struct Roles {
    /// The kubeconfig of `warren`.
    pub operator: PathBuf,
    /// The kubeconfig of the coordinator.
    pub coordinator: PathBuf,
    /// The kubeconfig of the rabbit agent.
    pub rabbit: PathBuf,
    /// Arguments, by compute, of agents that use the API directly with their own user. Other computes that use the API
    /// directly have the coordinator's kubeconfig.
    pub computes: BTreeMap<String, Vec<String>>,
}

impl RealServer {
    /// Creates a server that no other test uses.
    #[must_use]
    pub fn own(administrator: PathBuf, daemons: PathBuf) -> Self {
        let (operator, coordinator) = (administrator.clone(), daemons.clone());
        let computes = BTreeMap::new();
        Self::with_roles(administrator, Roles { operator, coordinator, rabbit: daemons, computes })
    }

    /// Creates a server that no other test uses, with a kubeconfig for each of Warren's programs.
    #[must_use]
    pub fn with_roles(administrator: PathBuf, roles: Roles) -> Self {
        Self { administrator, roles, turn: None }
    }

    /// Waits until no other test uses the server that `make kube` has started, and reserves the server for this test.
    fn shared(kubeconfig: PathBuf) -> Self {
        // An earlier test may have panicked, and poisoned the lock. That does no harm: this test first clears the
        // server.
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        Self { turn: Some(turn), ..Self::own(kubeconfig.clone(), kubeconfig) }
    }

    /// Creates the objects that the engine needs, which are directive rules and a storage profile, and registers the
    /// packaged webhooks and admission policies.
    ///
    /// # Errors
    /// When the server refuses an object.
    pub fn prepare_for_engine(&self, webhook: &Webhook) -> anyhow::Result<()> {
        control_plane::alone(async {
            let client = control_plane::client(&self.administrator).await?;
            workflow::shipped::install(&client).await.context("install rules and a profile")?;
            let objects = webhook.packaged()?;
            unregister(&client, &objects).await?;
            for object in objects {
                let (api, object) = cluster_object(&client, object)?;
                api.create(&PostParams::default(), &object).await.context("register admission")?;
            }
            tokio::time::sleep(POLICIES_ACTIVE).await;
            Ok(())
        })
    }

    async fn prepare(&self, nodes: &[String]) -> anyhow::Result<()> {
        let client = control_plane::client(&self.administrator).await?;
        if self.turn.is_some() {
            // Removes the webhook of an earlier test, whose coordinator does not run any more.
            unregister(&client, &packaged()?).await?;
            // Installs CRDs that are as strict as those of sites, to prove that a site accepts the programs' writes.
            let crds = site_rules::strict(api::ruled_crd_values());
            install_crds(&client, &crds).await.context("install the CRDs")?;
            clear(&client).await.context("delete the objects that an earlier test left")?;
        }
        make_namespaces(&client, nodes).await.context("make the nodes' namespaces")
    }
}

impl Server {
    /// Returns the real server if `make kube` has started one, otherwise the embedded server.
    #[must_use]
    pub fn of_this_run() -> Self {
        env::var_os(control_plane::KUBECONFIG)
            .map_or(Self::Embedded, |kubeconfig| Self::Real(RealServer::shared(kubeconfig.into())))
    }

    /// Prepares a real server before any node starts: installs CRDs and creates namespaces, as sites do. If a test has
    /// its own server, the test installs the CRDs.
    ///
    /// # Errors
    /// When the server refuses an object.
    pub fn prepare(&self, nodes: &[String]) -> anyhow::Result<()> {
        let Self::Real(real) = self else { return Ok(()) };
        control_plane::alone(real.prepare(nodes))
    }

    /// Returns the arguments with which this compute uses the API directly as its own user, if it has such arguments.
    #[must_use]
    pub fn direct_api_arguments(&self, compute: &str) -> Option<Vec<String>> {
        self.real()?.roles.computes.get(compute).cloned()
    }

    /// Returns the real server, or `None` for the embedded one.
    #[must_use]
    pub fn real(&self) -> Option<&RealServer> {
        match self {
            Self::Embedded => None,
            Self::Real(real) => Some(real),
        }
    }
}

/// Removes the webhooks and admission policies with these names.
async fn unregister(client: &Client, objects: &[Value]) -> anyhow::Result<()> {
    for object in objects {
        let (api, object) = cluster_object(client, object.clone())?;
        let gone = api.delete(&object.name_any(), &DeleteParams::default()).await;
        gone_or(gone.map(drop)).context("remove webhooks and admission policies")?;
    }
    Ok(())
}

fn cluster_object(
    client: &Client,
    object: Value,
) -> anyhow::Result<(Api<DynamicObject>, DynamicObject)> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.as_ref().context("an object without kind")?;
    let kind = ApiResource::from_gvk(&types.try_into()?);
    Ok((Api::all_with(client.clone(), &kind), object))
}

/// Installs CRDs as `kubectl apply` would, and waits until their kinds are served.
///
/// # Errors
/// When a CRD is refused or not served in time.
pub async fn install_crds(client: &Client, definitions: &[Value]) -> anyhow::Result<()> {
    let crds: Api<Crd> = Api::all(client.clone());
    let apply = PatchParams::apply("site").force();
    for crd in definitions {
        let name = crd["metadata"]["name"].as_str().context("a CRD without name")?.to_owned();
        crds.patch(&name, &apply, &Patch::Apply(crd)).await.with_context(|| name.clone())?;
        let served = await_condition(crds.clone(), &name, is_crd_established());
        tokio::time::timeout(PATIENCE, served).await.with_context(|| name.clone())??;
    }
    Ok(())
}

async fn make_namespaces(client: &Client, names: &[String]) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for name in names {
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        match namespaces.create(&PostParams::default(), &namespace).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            answer => drop(answer.with_context(|| name.clone())?),
        }
    }
    Ok(())
}

/// Deletes every object of Warren's kinds, and removes the finalizers: the programs that should remove them do
/// not run any more.
async fn clear(client: &Client) -> anyhow::Result<()> {
    for crd in api::crd_values() {
        let crd: Crd = serde_json::from_value(crd).context("decode a CRD")?;
        let kind = served_kind(&crd).context("a CRD serves no version")?;
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        for object in all.list(&ListParams::default()).await?.items {
            let namespace = object.namespace().unwrap_or_default();
            let own: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &kind);
            let name = object.name_any();
            // Deletes before removing the finalizers: an object that an earlier, less strict CRD admitted may be
            // deleted, but no longer changed.
            gone_or(own.delete(&name, &DeleteParams::default()).await.map(drop))?;
            let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            gone_or(own.patch(&name, &PatchParams::default(), &release).await.map(drop))?;
        }
    }
    Ok(())
}

fn served_kind(crd: &Crd) -> Option<ApiResource> {
    let version = crd.spec.versions.iter().find(|version| version.storage)?;
    Some(ApiResource {
        group: crd.spec.group.clone(),
        version: version.name.clone(),
        api_version: format!("{}/{}", crd.spec.group, version.name),
        kind: crd.spec.names.kind.clone(),
        plural: crd.spec.names.plural.clone(),
    })
}

fn gone_or(answer: kube::Result<()>) -> kube::Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        answer => answer,
    }
}

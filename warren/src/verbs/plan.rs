//! Requests a plan from this node's agent: the agent reads the node's state and plans, and changes nothing.

use std::time::Duration;

use api::names::ProfileRef;
use api::{ClientMount, NnfStorageProfile, RabbitLabels};
use kube::api::{Api, DynamicObject};
use kube::{Resource, ResourceExt};
use proto::v1::PlanRequest;
use proto::v1::node_client::NodeClient;
use serde_json::json;
use tokio::time::timeout;

use crate::args::Plan;
use crate::client::ServerArgs;
use crate::failure::{self, Failure};
use crate::manifest::{self, Document};
use cli::Exit;
use cli::{Output, channel_over_unix};

const REMEDY: &str = "start the agent with `systemctl start warren-clientmount-agent`, or name its socket with --agent";

/// Uid for an object that the API does not have. Nodes use the uid only as a key of their
/// records: mounts, index trees, hooks.
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";
/// Longest time to wait for the API. A plan needs no API if the files contain its profile.
const API_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) async fn run(server: &ServerArgs, args: &Plan, output: Output) -> Result<Exit, Failure> {
    let documents = manifest::read(&args.files.files)
        .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let mounts: Vec<&Document> =
        documents.iter().filter(|document| is_kind::<ClientMount>(document)).collect();
    if mounts.is_empty() {
        return Err(Failure::new(Exit::Usage, "the files contain no ClientMount")
            .remedy("only ClientMounts can be planned"));
    }
    let mut agent =
        NodeClient::new(channel_over_unix(&args.agent, REMEDY).await.map_err(Failure::of_agent)?);
    let mut stored = StoredObjects { server, output, is_unreachable: false };
    let mut results = Vec::new();
    let mut exit = Exit::Done;
    for mount in mounts {
        let profile = profile(server, &documents, mount, output).await?;
        let mut object = mount.object.clone();
        object.metadata.namespace.get_or_insert_with(|| args.files.namespace.clone());
        stored.identify(&mut object).await;
        let request = PlanRequest { client_mount: bytes(&object), profile, job: None };
        let answer = agent.plan(request).await.map_err(|status| {
            Failure::grpc(format!("{}: request a plan from the agent", mount.place), &status)
                .of_agent()
        })?;
        let plan = answer.into_inner();
        if !plan.rejection.is_empty() {
            exit = Exit::StorageFault;
        }
        if output.is_json() {
            results.push(json!({"object": object.name_any(), "steps": plan.steps, "rejection": plan.rejection}));
        } else {
            output.plan(&object.name_any(), &plan.steps, &plan.rejection)?;
        }
    }
    if output.is_json() {
        output.json(&results)?;
    }
    Ok(exit)
}

/// Looks up objects in the API. After the first failure it looks up nothing more: each further request could wait for
/// [`API_TIMEOUT`] again.
struct StoredObjects<'a> {
    server: &'a ServerArgs,
    output: Output,
    is_unreachable: bool,
}

impl StoredObjects<'_> {
    /// Gives an object without a uid the uid that it has in the API; if the API does not have the object, [`NO_UID`].
    async fn identify(&mut self, object: &mut DynamicObject) {
        if object.metadata.uid.as_ref().is_some_and(|uid| !uid.is_empty()) {
            return;
        }
        let found = if self.is_unreachable { None } else { self.find(object).await };
        object.metadata.uid = Some(found.unwrap_or_else(|| NO_UID.to_owned()));
    }

    async fn find(&mut self, object: &DynamicObject) -> Option<String> {
        let why = match timeout(API_TIMEOUT, uid(self.server, object, self.output)).await {
            Ok(Ok(uid)) => return uid,
            Ok(Err(failure)) => failure.text(),
            Err(_) => format!("the API gave no answer within {} s", API_TIMEOUT.as_secs()),
        };
        self.is_unreachable = true;
        let why = why.lines().next().unwrap_or_default();
        self.output.note(&format!("planned as if the objects did not exist yet: {why}"));
        None
    }
}

/// Returns the uid of the object in the API; `None` if it does not exist.
async fn uid(
    server: &ServerArgs,
    object: &DynamicObject,
    output: Output,
) -> Result<Option<String>, Failure> {
    let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    let resource = kube::api::ApiResource::erase::<ClientMount>(&());
    let api: Api<DynamicObject> =
        Api::namespaced_with(server.client(output).await?, &namespace, &resource);
    let found = api
        .get_metadata_opt(&name)
        .await
        .map_err(|error| failure::api(format!("get the ClientMount {namespace}/{name}"), &error))?;
    Ok(found.and_then(|found| found.metadata.uid))
}

/// Returns the pinned profile as JSON, from the files, else from the API. Empty if the profile does not exist; the
/// agent then reports that it is missing.
async fn profile(
    server: &ServerArgs,
    documents: &[Document],
    mount: &Document,
    output: Output,
) -> Result<Vec<u8>, Failure> {
    let Some(ProfileRef { name, namespace }) = mount.object.pinned_profile() else {
        return Ok(Vec::new());
    };
    let wanted = |document: &&Document| {
        is_kind::<NnfStorageProfile>(document)
            && document.object.name_any() == name
            && document.object.namespace().as_deref().unwrap_or("default") == namespace
    };
    if let Some(document) = documents.iter().find(wanted) {
        return Ok(bytes(&document.object));
    }
    let resource = kube::api::ApiResource::erase::<NnfStorageProfile>(&());
    let api: Api<DynamicObject> =
        Api::namespaced_with(server.client(output).await?, namespace, &resource);
    let found = api
        .get_opt(name)
        .await
        .map_err(|error| failure::api(format!("get the profile {namespace}/{name}"), &error))?;
    Ok(found.map(|profile| bytes(&profile)).unwrap_or_default())
}

fn is_kind<K: Resource<DynamicType = ()>>(document: &Document) -> bool {
    let types = document.object.types.as_ref();
    types
        .is_some_and(|types| types.kind == K::kind(&()) && types.api_version == K::api_version(&()))
}

/// Serializes an object. This cannot fail: the object was parsed from JSON or YAML.
fn bytes(object: &DynamicObject) -> Vec<u8> {
    serde_json::to_vec(object).unwrap_or_default()
}

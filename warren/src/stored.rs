//! Reads from the API what the files of a plan leave out: the uids and the profiles of ClientMounts.

use std::time::Duration;

use api::names::ProfileRef;
use api::{ClientMount, NnfStorageProfile, RabbitLabels};
use cli::Output;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, TypeMeta};
use tokio::time::timeout;

use crate::client::ServerArgs;
use crate::failure::{self, Failure};
use crate::manifest::Document;

/// Uid for an object that the API does not have. Nodes use the uid only as a key of their
/// records: mounts, index trees, hooks.
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";
/// Longest time to wait for the API. A plan needs no API if the files contain its profile.
const API_TIMEOUT: Duration = Duration::from_secs(5);

/// Looks up objects in the API. After the first failure it looks up nothing more: each further request could wait for
/// [`API_TIMEOUT`] again.
pub(crate) struct StoredObjects<'a> {
    server: &'a ServerArgs,
    output: Output,
    is_unreachable: bool,
}

impl<'a> StoredObjects<'a> {
    pub(crate) fn new(server: &'a ServerArgs, output: Output) -> Self {
        Self { server, output, is_unreachable: false }
    }

    /// Gives a ClientMount without a uid the uid that it has in the API; if the API does not have the object,
    /// [`NO_UID`].
    pub(crate) async fn identify(&mut self, object: &mut DynamicObject) {
        if object.metadata.uid.as_ref().is_some_and(|uid| !uid.is_empty()) {
            return;
        }
        let found = match object.namespace() {
            Some(namespace) => {
                let name = object.name_any();
                self.find(ApiResource::erase::<ClientMount>(&()), &namespace, &name).await
            }
            None => None,
        };
        let uid = found.and_then(|found| found.metadata.uid);
        object.metadata.uid = Some(uid.unwrap_or_else(|| NO_UID.to_owned()));
    }

    /// Returns the pinned profile of an object if the files do not have the profile but the API has it.
    pub(crate) async fn profile(
        &mut self,
        documents: &[Document],
        object: &DynamicObject,
    ) -> Option<DynamicObject> {
        let ProfileRef { name, namespace } = object.pinned_profile()?;
        let is_same = |document: &&Document| {
            document.is_kind::<NnfStorageProfile>()
                && document.object.name_any() == name
                && document.object.namespace().as_deref().unwrap_or("default") == namespace
        };
        if documents.iter().any(|document| is_same(&document)) {
            return None;
        }
        let resource = ApiResource::erase::<NnfStorageProfile>(&());
        let mut found = self.find(resource.clone(), namespace, name).await?;
        found.types = Some(TypeMeta { api_version: resource.api_version, kind: resource.kind });
        Some(found)
    }

    async fn find(
        &mut self,
        resource: ApiResource,
        namespace: &str,
        name: &str,
    ) -> Option<DynamicObject> {
        if self.is_unreachable {
            return None;
        }
        let found = get(self.server, self.output, &resource, (namespace, name));
        let why = match timeout(API_TIMEOUT, found).await {
            Ok(Ok(found)) => return found,
            Ok(Err(failure)) => failure.text(),
            Err(_) => format!("the API gave no answer within {} s", API_TIMEOUT.as_secs()),
        };
        self.is_unreachable = true;
        let why = why.lines().next().unwrap_or_default();
        self.output.note(&format!("planned as if the API did not have the objects: {why}"));
        None
    }
}

async fn get(
    server: &ServerArgs,
    output: Output,
    resource: &ApiResource,
    (namespace, name): (&str, &str),
) -> Result<Option<DynamicObject>, Failure> {
    let client = server.client(output).await?;
    let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, resource);
    api.get_opt(name).await.map_err(|error| {
        failure::api(format!("get the {} {namespace}/{name}", resource.kind), &error)
    })
}

//! Finds the objects of a workflow on its nodes.

use std::collections::BTreeMap;
use std::fmt::Debug;

use api::names::label;
use api::{ClientMount, NnfNodeBlockStorage, NnfNodeStorage, NodeContainers};
use apiclient::list_readable;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt};
use proto::v1::ObjectName;
use serde::de::DeserializeOwned;
use tonic::Status;
use workload::Refused;

use crate::workloads::job::refusal_status;

/// Returns the names of a workflow's objects on each node, in the order in which they are made.
///
/// # Errors
/// If the API does not answer, an object cannot be read, or the workflow has no objects on nodes.
pub(super) async fn of_workflow(
    client: &Client,
    namespace: &str,
    workflow: &str,
) -> Result<BTreeMap<String, Vec<ObjectName>>, Status> {
    let selector =
        format!("{}={workflow},{}={namespace}", label::WORKFLOW_NAME, label::WORKFLOW_NAMESPACE);
    let mut found =
        Found { client, params: ListParams::default().labels(&selector), names: BTreeMap::new() };
    found.list::<NnfNodeBlockStorage>().await?;
    found.list::<NnfNodeStorage>().await?;
    found.list::<ClientMount>().await?;
    found.list::<NodeContainers>().await?;
    if found.names.is_empty() {
        return Err(Status::not_found(format!(
            "Workflow {namespace}/{workflow} has no objects on nodes: it does not exist, or is not in Setup yet"
        )));
    }
    Ok(found.names)
}

struct Found<'a> {
    client: &'a Client,
    params: ListParams,
    names: BTreeMap<String, Vec<ObjectName>>,
}

impl Found<'_> {
    async fn list<K>(&mut self) -> Result<(), Status>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let kind = K::kind(&());
        let listed = list_readable::<K>(self.client.clone(), None, &self.params).await;
        let listed = match listed {
            // The site has no CRD of this kind.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            listed => listed.map_err(|source| {
                refusal_status(&Refused { what: format!("list the {kind}s"), source })
            })?,
        };
        if !listed.unreadable.is_empty() {
            let texts = listed.unreadable.join("; ");
            return Err(Status::failed_precondition(format!(
                "the plan would be incomplete, because an object cannot be read: {texts}"
            )));
        }
        for object in listed.items {
            let node = object.namespace().unwrap_or_default();
            let name = ObjectName { kind: kind.to_string(), name: object.name_any() };
            self.names.entry(node).or_default().push(name);
        }
        Ok(())
    }
}

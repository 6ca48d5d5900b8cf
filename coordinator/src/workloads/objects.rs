//! Returns a user's own objects, as the Kubernetes API has them: their Workflows, the objects of these Workflows, and their
//! persistent storage. The answer does not tell whether other users' objects exist.

mod logs;

use std::collections::BTreeSet;

use api::{RabbitLabels, names::label};
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use proto::v1::{ObjectsRequest, OwnObject};
use serde_json::Value;
use tonic::Status;
use workload::{Refused, user_kinds};

use super::caller::Sight;
use super::job::refusal_status;

/// Number of objects of one answer of the API.
const PAGE: u32 = 500;

/// Name in the place of a Workflow of another user that uses a persistent storage.
const OTHER: &str = "of-another-user";

/// Reads a user's objects of one kind from the API.
///
/// # Errors
/// If the kind is unknown, or the API does not answer.
pub(super) async fn read(
    client: &Client,
    sight: &Sight,
    request: &ObjectsRequest,
) -> Result<Vec<OwnObject>, Status> {
    let kind = find_kind(&request.kind)?;
    let own = Own {
        workflows: list(client, &find_kind("Workflow")?, "").await?,
        instances: list(client, &find_kind("PersistentStorageInstance")?, "").await?,
    };
    let own = own.of(sight);
    let found = match kind.kind.as_str() {
        "Workflow" => select(&own.workflows, &request.labels),
        "PersistentStorageInstance" => own.visible_instances(&request.labels),
        _ => {
            let all = list(client, &kind, &request.labels).await?;
            all.into_iter().filter(|object| own.has(object)).collect()
        }
    };
    let is_requested = |object: &DynamicObject| {
        let is = |found: Option<String>, wanted: &str| {
            wanted.is_empty() || found.as_deref() == Some(wanted)
        };
        is(object.namespace(), &request.namespace) && is(Some(object.name_any()), &request.name)
    };
    let mut found: Vec<DynamicObject> = found.into_iter().filter(is_requested).collect();
    if request.with_new_logs {
        found = logs::request(client, found).await?;
    }
    found.iter().map(to_proto).collect()
}

fn find_kind(name: &str) -> Result<ApiResource, Status> {
    let all = user_kinds();
    let known: Vec<&str> = all.iter().map(|kind| kind.kind.as_str()).collect();
    all.iter().find(|kind| kind.kind == name).cloned().ok_or_else(|| {
        let known = known.join(", ");
        Status::invalid_argument(format!("argument kind: {name:?}: write one of {known}"))
    })
}

fn to_proto(object: &DynamicObject) -> Result<OwnObject, Status> {
    let json = serde_json::to_string(object);
    json.map(|json| OwnObject { json })
        .map_err(|error| Status::internal(format!("encode {}: {error}", object.name_any())))
}

async fn list(
    client: &Client,
    kind: &ApiResource,
    labels: &str,
) -> Result<Vec<DynamicObject>, Status> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), kind);
    let mut params = ListParams::default().limit(PAGE);
    if !labels.is_empty() {
        params = params.labels(labels);
    }
    let mut objects = Vec::new();
    loop {
        let page = api.list(&params).await.map_err(|source| {
            refusal_status(&Refused { what: format!("list {}", kind.plural), source })
        })?;
        objects.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            None => return Ok(objects),
            Some(token) => params = params.continue_token(&token),
        }
    }
}

/// The objects with these labels, as in `KEY=VALUE,KEY=VALUE`.
fn select(objects: &[DynamicObject], labels: &str) -> Vec<DynamicObject> {
    let pairs = || labels.split(',').filter(|pair| !pair.is_empty());
    let has = |object: &DynamicObject, pair: &str| {
        let wanted = pair.split_once('=');
        wanted.is_some_and(|(key, value)| {
            object.labels().get(key).is_some_and(|found| found == value)
        })
    };
    let selected = objects.iter().filter(|object| pairs().all(|pair| has(object, pair)));
    selected.cloned().collect()
}

/// Workflows and persistent storage, of all users or of one.
struct Own {
    workflows: Vec<DynamicObject>,
    instances: Vec<DynamicObject>,
}

fn user_of(object: &DynamicObject) -> Option<i64> {
    object.data["spec"]["userID"].as_i64()
}

impl Own {
    /// Returns the objects that a caller may see: none with an unreadable user.
    fn of(self, sight: &Sight) -> Self {
        let is_own = |object: &DynamicObject| user_of(object) == Some(i64::from(sight.user));
        let is_managed = |object: &DynamicObject| {
            let manager = object.data["spec"]["wlmID"].as_str();
            sight
                .only
                .as_ref()
                .is_none_or(|only| only.iter().any(|name| Some(name.as_str()) == manager))
        };
        let workflows = self.workflows.into_iter();
        let instances = self.instances.into_iter();
        Self {
            workflows: workflows.filter(|object| is_own(object) && is_managed(object)).collect(),
            instances: instances.filter(is_own).collect(),
        }
    }

    /// Returns whether an object belongs to one of these Workflows, or is the Servers of one of these storages.
    fn has(&self, object: &DynamicObject) -> bool {
        let uids = |objects: &[DynamicObject]| -> BTreeSet<String> {
            objects.iter().filter_map(ResourceExt::uid).collect()
        };
        let workflows = uids(&self.workflows);
        if let Some(workflow) = object.label(label::WORKFLOW_UID) {
            return workflows.contains(workflow);
        }
        let instances = uids(&self.instances);
        let mut owners = object.owner_references().iter().map(|owner| &owner.uid);
        owners.any(|uid| workflows.contains(uid) || instances.contains(uid))
    }

    /// Returns the persistent storage, without the names of other users' Workflows.
    fn visible_instances(&self, labels: &str) -> Vec<DynamicObject> {
        let mut instances = select(&self.instances, labels);
        for instance in &mut instances {
            let namespace = instance.namespace();
            let consumers = instance.data.pointer_mut("/spec/consumerReferences");
            for consumer in consumers.and_then(Value::as_array_mut).into_iter().flatten() {
                if !self.is_consumer(consumer, namespace.as_deref()) {
                    consumer["name"] = OTHER.into();
                }
            }
        }
        instances
    }

    /// Returns whether a consumer, `WORKFLOW-INDEX` or a Servers, belongs to one of these Workflows.
    fn is_consumer(&self, consumer: &Value, namespace: Option<&str>) -> bool {
        let name = consumer["name"].as_str().unwrap_or_default();
        let workflow = name.rsplit_once('-').map(|(workflow, _)| workflow);
        let namespace = consumer["namespace"].as_str().or(namespace);
        self.workflows.iter().any(|object| {
            Some(object.name_any().as_str()) == workflow
                && object.namespace().as_deref() == namespace
        })
    }
}

#[cfg(test)]
mod tests;

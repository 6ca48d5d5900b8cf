//! Watches Workflows and Computes, and stores them.

use std::sync::Arc;

use controller::{Event, Item, WatchHealth, Watched, watch};
use futures::StreamExt;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher::Config;
use kube::{Client, ResourceExt};

use crate::known::Jobs;
use crate::workflow::{Computes, Workflow, WorkflowKey};

pub(crate) fn workflow() -> ApiResource {
    ApiResource::erase::<api::Workflow>(&())
}

pub(crate) fn computes_of_workflow() -> ApiResource {
    ApiResource::erase::<api::Computes>(&())
}

/// Watches the Workflows of a namespace, or of all, until dropped. While the watch fails, the known Workflows are kept.
pub async fn workflows(client: Client, namespace: Option<String>, jobs: Arc<Jobs>) {
    follow(client, namespace, workflow(), |event| match event {
        Event::Applied(Ok(object)) => jobs.apply_workflow(Workflow::read(&object)),
        Event::Deleted(Ok(object)) => {
            jobs.remove_workflow(&key(&object), &object.uid().unwrap_or_default());
        }
        Event::Listed(items) => {
            jobs.replace_workflows(readable(items).iter().map(Workflow::read).collect());
        }
        Event::Applied(Err(_)) | Event::Deleted(Err(_)) | Event::Failing(_) | Event::Working => {}
    })
    .await;
}

/// Watches the Computes of a namespace, or of all, until dropped.
pub async fn computes(client: Client, namespace: Option<String>, jobs: Arc<Jobs>) {
    follow(client, namespace, computes_of_workflow(), |event| match event {
        Event::Applied(Ok(object)) => jobs.apply_computes(key(&object), Computes::read(&object)),
        Event::Deleted(Ok(object)) => jobs.remove_computes(&key(&object)),
        Event::Listed(items) => {
            let items = readable(items);
            let computes = items.iter().map(|object| (key(object), Computes::read(object)));
            jobs.replace_computes(computes.collect());
        }
        Event::Applied(Err(_)) | Event::Deleted(Err(_)) | Event::Failing(_) | Event::Working => {}
    })
    .await;
}

async fn follow(
    client: Client,
    namespace: Option<String>,
    resource: ApiResource,
    mut take: impl FnMut(Event),
) {
    let kind = resource.kind.clone();
    let watched = Watched { resource, namespace, config: Config::default() };
    let (mut events, health) = (std::pin::pin!(watch(client, watched)), WatchHealth::default());
    while let Some(event) = events.next().await {
        match &event {
            Event::Failing(trouble) => health.failing(&kind, trouble),
            Event::Working => health.working(&kind),
            _ => {}
        }
        take(event);
    }
}

fn key(object: &DynamicObject) -> WorkflowKey {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn readable(items: Vec<Item<DynamicObject>>) -> Vec<DynamicObject> {
    items.into_iter().flatten().collect()
}

//! Lists objects directly from the API, for questions that need a more certain answer than the watches give.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiclient::{Delays, plain};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use tokio::time::{sleep, timeout};

use crate::known::{Jobs, ListRequest};
use crate::watch::{computes_of_workflow, workflow};
use crate::workflow::{Computes, Workflow, WorkflowKey};

/// Longest time to wait for an answer of the API.
const PATIENCE: Duration = Duration::from_secs(60);
/// Shortest interval between two requests: all nodes of a cluster may open questions within one second, and one list
/// answers all earlier questions.
const REST: Duration = Duration::from_millis(200);
/// Longest delay before a failed request is repeated.
const LONGEST: Duration = Duration::from_secs(15);

/// Sends the requests that questions need, in one namespace or in all namespaces, until this future is dropped.
pub async fn send_requests(client: Client, namespace: Option<String>, jobs: Arc<Jobs>) {
    let mut pace = Delays::new(REST, LONGEST);
    loop {
        let request = jobs.next_request().await;
        match timeout(PATIENCE, list(&client, namespace.as_deref(), &request)).await {
            Ok(Ok((workflows, computes))) => {
                jobs.request_answered(&request, workflows, computes);
                pace = Delays::new(REST, LONGEST);
                sleep(REST).await;
            }
            failed => {
                let why = match failed {
                    Ok(Err(error)) => plain(&error).to_string(),
                    _ => format!("no answer within {} s", PATIENCE.as_secs()),
                };
                let why = format!("Workflows cannot be listed: {why}");
                if jobs.request_failed(request, why.clone()) {
                    log::warn!(
                        "{why}; nodes that wait for a job keep waiting, and the lists are requested again"
                    );
                }
                sleep(pace.next_delay()).await;
            }
        }
    }
}

type Found = (Vec<Workflow>, BTreeMap<WorkflowKey, Option<Computes>>);

/// Lists the Workflows first, then Computes: a workload manager writes the Computes before it requests PreRun, so a
/// Workflow that is in PreRun has its Computes in the later list.
async fn list(
    client: &Client,
    namespace: Option<&str>,
    request: &ListRequest,
) -> kube::Result<Found> {
    let workflows: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &workflow()),
        None => Api::all_with(client.clone(), &workflow()),
    };
    // Without a resourceVersion the API answers with its newest state.
    let listed = workflows.list(&ListParams::default()).await?;
    let workflows = listed.items.iter().map(Workflow::read).collect();
    let mut computes = BTreeMap::new();
    for key in &request.computes {
        let (namespace, name) = key;
        let api: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), namespace, &computes_of_workflow());
        // Lists instead of reading one object: the roles grant list and watch only.
        let by_name = ListParams::default().fields(&format!("metadata.name={name}"));
        let found = api.list(&by_name).await?.items.pop();
        computes.insert(key.clone(), found.as_ref().map(Computes::read));
    }
    Ok((workflows, computes))
}

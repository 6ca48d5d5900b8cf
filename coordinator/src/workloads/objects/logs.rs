//! Requests the logs of running containers from the rabbits' agents for a user, who may not write NodeContainers.

use std::time::Duration;

use api::{NodeContainers, names::annotation};
use containers::on_rabbit::logs_may_grow;
use futures::future::try_join_all;
use jiff::Timestamp;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::time::timeout;
use tonic::Status;
use workload::Refused;

use crate::workloads::job::refusal_status;

/// Longest time that an agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns NodeContainers with the newest logs of running containers. Objects of other kinds are returned as they are.
///
/// # Errors
/// `DeadlineExceeded` names a rabbit that does not answer; another status if the API does not answer.
pub(super) async fn request(
    client: &Client,
    objects: Vec<DynamicObject>,
) -> Result<Vec<DynamicObject>, Status> {
    try_join_all(objects.into_iter().map(|object| request_one(client, object))).await
}

async fn request_one(client: &Client, object: DynamicObject) -> Result<DynamicObject, Status> {
    let Ok(run) = object.clone().try_parse::<NodeContainers>() else { return Ok(object) };
    if !logs_may_grow(&run) {
        return Ok(object);
    }
    let (rabbit, name) = (run.namespace().unwrap_or_default(), run.name_any());
    let api: Api<NodeContainers> = Api::namespaced(client.clone(), &rabbit);
    let time = run.next_log_request(Timestamp::now()).to_string();
    let patch = json!({"metadata": {"annotations": {annotation::LOGS_ASKED: time}}});
    api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.map_err(|source| {
        let what = format!("request the logs of NodeContainers {rabbit}/{name}");
        refusal_status(&Refused { what, source })
    })?;
    let is_answered = |run: Option<&NodeContainers>| {
        run.is_none_or(|run| run.unanswered_log_request().is_none() || !logs_may_grow(run))
    };
    let answer = timeout(PATIENCE, await_condition(api, &name, is_answered)).await;
    let answer = answer.map_err(|_| {
        Status::deadline_exceeded(format!(
            "{rabbit} did not send the logs of running containers within {} s: check that rabbit-agent runs there; an agent that is fetching an image sends them afterwards",
            PATIENCE.as_secs()
        ))
    })?;
    let answer = answer.map_err(|error| {
        Status::unavailable(format!("wait for the logs of NodeContainers {rabbit}/{name}: {error}"))
    })?;
    let answer = answer.and_then(|run| serde_json::to_value(run).ok());
    Ok(answer.and_then(|run| serde_json::from_value(run).ok()).unwrap_or(object))
}

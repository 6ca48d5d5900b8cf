//! Fences one node: handles its requests, detaches once with a time limit, and answers.

use std::{sync::Arc, time::Duration};

use storage::desired::NodeName;
use tokio::task::JoinHandle;

use crate::{
    FenceConfig,
    answer::answer_all,
    detach::{Tools, detach, not_proved},
    request::{FileName, Request},
    response::Verdict,
    spool::Spool,
};

/// Longest time of a fence; then the agent answers that the fence failed. At the sites, Pacemaker's agent waits 60 s
/// for an answer, and the acknowledgement to DLM must fit into this time too.
const DETACH_WITHIN: Duration = Duration::from_secs(40);

/// Fences one node and answers all its requests. Returns the requests that could not be answered or deleted.
pub(super) async fn fence(
    tools: Arc<Tools>,
    config: Arc<FenceConfig>,
    spool: Spool,
    node: NodeName,
    requests: Vec<(FileName, Request)>,
) -> Vec<FileName> {
    let (supported, refused): (Vec<_>, Vec<_>) =
        requests.into_iter().partition(|(_, request)| request.check_action().is_ok());
    let mut left = Vec::new();
    for request in refused {
        let why = request.1.check_action().err().map(|error| error.to_string()).unwrap_or_default();
        left.extend(
            answer_all(&config, &spool, &node, vec![request], &not_proved(&node, &why)).await,
        );
    }
    if supported.is_empty() {
        return left;
    }
    for (_, request) in &supported {
        log::info!(
            "{node} is to be fenced: request of {}: {}",
            request.recorder_node,
            request.request_id
        );
    }
    let (verdict, late) = detach_in_time(&tools, &node).await;
    if verdict.is_success() {
        log::info!("{}", verdict.text());
    } else {
        log::error!("{}", verdict.text());
    }
    left.extend(answer_all(&config, &spool, &node, supported, &verdict).await);
    if let Some(late) = late {
        // Waits for the task to end: a task that still ran after the node was re-admitted could detach namespaces that
        // the node got since.
        drop(late.await);
    }
    left
}

/// Detaches with a time limit. If the limit passes, also returns the task, which still runs.
async fn detach_in_time(
    tools: &Arc<Tools>,
    node: &NodeName,
) -> (Verdict, Option<JoinHandle<Verdict>>) {
    let (used, target) = (Arc::clone(tools), node.clone());
    let mut detaching = tokio::spawn(async move { detach(&used, &target).await });
    match tokio::time::timeout(DETACH_WITHIN, &mut detaching).await {
        Ok(Ok(verdict)) => (verdict, None),
        Ok(Err(error)) => (not_proved(node, &format!("the fence ended early: {error}")), None),
        Err(_) => {
            let why = format!("it did not end within {} s", DETACH_WITHIN.as_secs());
            (not_proved(node, &why), Some(detaching))
        }
    }
}

//! Ends a fence: writes the answers, acknowledges to DLM, and deletes the requests, in this order.
//!
//! A node stays fenced as long as an answer of success exists, even if the agent crashes. So the answer must be on disk
//! before DLM gives the node's locks to other nodes: if the agent cannot write the answer, it does not acknowledge to
//! DLM. A requester may read the answer before the acknowledgement to DLM: the answer says only that the node has no
//! access, and this is true by then. If the requester is Pacemaker, it acknowledges to DLM itself.

use std::{fs, sync::Arc, time::Duration};

use causes::CommandError;
use daemon::{blocking, chain};
use k8s_openapi::jiff::Timestamp;
use process::Cmd;
use storage::desired::NodeName;
use thiserror::Error;

use super::{
    FenceConfig, corosync,
    request::{FileName, Request},
    response::{Response, Verdict},
    spool::{Spool, SpoolError},
};

/// Longest run of dlm_tool: the dlm_controld that it asks runs on this node and answers at once.
const ACK_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Error)]
enum AckError {
    #[error("read {path}")]
    Read {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} has no nodeid for {node}")]
    NoNumber { path: String, node: NodeName },
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// Writes all answers, acknowledges a proved fence to DLM, and deletes the requests. Returns the requests that could
/// not be answered or deleted.
pub(super) async fn answer_all(
    config: &Arc<FenceConfig>,
    spool: &Spool,
    node: &NodeName,
    requests: Vec<(FileName, Request)>,
    verdict: &Verdict,
) -> Vec<FileName> {
    let (mut answered, mut left) = (Vec::new(), Vec::new());
    for request in requests {
        let written = answer(spool, &request, verdict).await;
        if written { answered.push(request) } else { left.push(request.0) }
    }
    if verdict.is_success() && !answered.is_empty() {
        let reported = verdict.and(&acknowledge_to_dlm(config, node).await);
        for request in &answered {
            amend(spool, request, &reported).await;
        }
    }
    for (name, _) in answered {
        left.extend(delete(spool, name).await);
    }
    left
}

/// Acknowledges to DLM that the node is fenced, and returns the result as text. DLM keeps the node's locks until then.
async fn acknowledge_to_dlm(config: &Arc<FenceConfig>, node: &NodeName) -> String {
    let (config, target) = (Arc::clone(config), node.clone());
    match blocking(move || acknowledge(&config, &target)).await {
        Ok(()) => {
            log::info!("{node} is fenced: DLM was informed");
            "DLM was informed".to_owned()
        }
        Err(error) => {
            let why = chain(&error);
            log::error!("{node} is fenced, but DLM could not be informed: {why}");
            format!("DLM could not be informed: {why}")
        }
    }
}

fn acknowledge(config: &FenceConfig, node: &NodeName) -> Result<(), AckError> {
    let path = config.corosync.display().to_string();
    let text = fs::read_to_string(&config.corosync)
        .map_err(|source| AckError::Read { path: path.clone(), source })?;
    let id = corosync::node_id(&text, node)
        .ok_or_else(|| AckError::NoNumber { path, node: node.clone() })?;
    Ok(fence_ack(&config.dlm_tool, id)?)
}

/// Writes the answer, and returns whether that succeeded.
async fn answer(spool: &Spool, (name, request): &(FileName, Request), verdict: &Verdict) -> bool {
    let (spool, name, request) = (spool.clone(), name.clone(), request.clone());
    let verdict = verdict.clone();
    let answered = blocking(move || {
        spool.answer(&name, &Response::new(&request, &verdict, Timestamp::now()))?;
        let how = if verdict.is_success() { "fenced" } else { "not fenced" };
        log::info!("answered {name}: {how}");
        Ok(())
    });
    let answered = answered.await;
    let written = answered.is_ok();
    log_error(answered);
    written
}

/// Rewrites the answer with the result of the acknowledgement to DLM. If the rewrite fails, the first answer stays,
/// and it is true.
async fn amend(spool: &Spool, (name, request): &(FileName, Request), verdict: &Verdict) {
    let (spool, name, request) = (spool.clone(), name.clone(), request.clone());
    let verdict = verdict.clone();
    let response = move || spool.amend(&name, &Response::new(&request, &verdict, Timestamp::now()));
    log_error(blocking(response).await);
}

/// Deletes the request. Returns the request's name if the deletion failed.
async fn delete(spool: &Spool, name: FileName) -> Option<FileName> {
    let (spool, request) = (spool.clone(), name.clone());
    let deleted = blocking(move || spool.delete(&request)).await;
    let left = deleted.is_err();
    log_error(deleted);
    left.then_some(name)
}

fn log_error(result: Result<(), SpoolError>) {
    if let Err(error) = result {
        log::error!("{}", chain(&error));
    }
}

/// Completes a fence that a crash interrupted between the answer and the deletion of the request: DLM may have missed
/// the acknowledgement, and a second acknowledgement does no harm. Returns the requests that could not be deleted.
pub(super) async fn finish(
    config: Arc<FenceConfig>,
    spool: Spool,
    node: NodeName,
    answered: Vec<(FileName, bool)>,
) -> Vec<FileName> {
    if answered.iter().any(|(_, success)| *success) {
        acknowledge_to_dlm(&config, &node).await;
    }
    let mut left = Vec::new();
    for (name, _) in answered {
        left.extend(delete(&spool, name).await);
    }
    left
}

/// Reports to dlm_controld that the cluster node `id` is fenced, so that other nodes get the locks which that node held
/// (dlm_tool(8), `fence_ack`). `program` is the path of dlm_tool, or its name to be searched on `PATH`.
///
/// The tool fails when no lock manager runs, or when the lock manager is not waiting for that node to be fenced.
fn fence_ack(program: &str, id: u32) -> Result<(), CommandError> {
    Cmd::new([program, "fence_ack", &id.to_string()]).run(ACK_WITHIN)
}

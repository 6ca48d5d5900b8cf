//! The end of a fence: answers, word to DLM, and the requests taken away, in this order.
//!
//! The answer is what keeps the node out, also after a crash: it is on disk before DLM gives the node's locks to others, and
//! DLM hears nothing while it cannot be written. Nobody is misled who reads it before DLM has heard: the node is cut off by
//! then, which is all that the answer says, and Pacemaker, which tells DLM itself when its agent succeeds, may do so.

use std::{fs, sync::Arc, time::Duration};

use daemon::chain;
use k8s_openapi::jiff::Timestamp;
use storage::{desired::NodeName, linux::dlm};
use thiserror::Error;

use super::{
    FenceConfig, corosync,
    request::{FileName, Request},
    response::{Response, Verdict},
    spool::{Spool, SpoolError},
};
use crate::pass::blocking;

/// dlm_controld is on this node, and answers at once if it runs.
const ACK_WITHIN: Duration = Duration::from_secs(10);

/// DLM was not told.
#[derive(Debug, Error)]
enum AckError {
    #[error("read {path}")]
    Read {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} gives {node} no nodeid")]
    NoNumber { path: String, node: NodeName },
    #[error(transparent)]
    Command(#[from] storage::host::CommandError),
}

/// Answers everybody who asked, tells DLM of a fence that is proved, and takes the requests away in the end. What could not be
/// answered or taken away is given back.
pub(super) async fn answer_all(
    config: &Arc<FenceConfig>,
    spool: &Spool,
    node: &NodeName,
    asked: Vec<(FileName, Request)>,
    verdict: &Verdict,
) -> Vec<FileName> {
    let (mut answered, mut left) = (Vec::new(), Vec::new());
    for asked in asked {
        let written = answer(spool, &asked, verdict).await;
        if written { answered.push(asked) } else { left.push(asked.0) }
    }
    if verdict.is_success() && !answered.is_empty() {
        let reported = verdict.and(&tell_dlm(config, node).await);
        for asked in &answered {
            amend(spool, asked, &reported).await;
        }
    }
    for (name, _) in answered {
        left.extend(take_away(spool, name).await);
    }
    left
}

/// Tells DLM that the node is fenced, and in words how that went: its locks are held until somebody tells it.
async fn tell_dlm(config: &Arc<FenceConfig>, node: &NodeName) -> String {
    let (config, target) = (Arc::clone(config), node.clone());
    match blocking(move || acknowledge(&config, &target)).await {
        Ok(()) => {
            log::info!("{node} is fenced: DLM was told");
            "DLM was told".to_owned()
        }
        Err(error) => {
            let why = chain(&error);
            log::error!("{node} is fenced: DLM could not be told: {why}");
            format!("DLM could not be told: {why}")
        }
    }
}

fn acknowledge(config: &FenceConfig, node: &NodeName) -> Result<(), AckError> {
    let path = config.corosync.display().to_string();
    let text = fs::read_to_string(&config.corosync)
        .map_err(|source| AckError::Read { path: path.clone(), source })?;
    let id = corosync::node_id(&text, node)
        .ok_or_else(|| AckError::NoNumber { path, node: node.clone() })?;
    Ok(dlm::fence_ack(&config.dlm_tool, id, ACK_WITHIN)?)
}

/// Whether it could be answered.
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
    tell(answered);
    written
}

/// Without it the answer says less, and nothing that is not so.
async fn amend(spool: &Spool, (name, request): &(FileName, Request), verdict: &Verdict) {
    let (spool, name, request) = (spool.clone(), name.clone(), request.clone());
    let verdict = verdict.clone();
    let response = move || spool.amend(&name, &Response::new(&request, &verdict, Timestamp::now()));
    tell(blocking(response).await);
}

/// Gives the name back if the request is still there.
async fn take_away(spool: &Spool, name: FileName) -> Option<FileName> {
    let (spool, of) = (spool.clone(), name.clone());
    let gone = blocking(move || spool.take_away(&of)).await;
    let left = gone.is_err();
    tell(gone);
    left.then_some(name)
}

fn tell(result: Result<(), SpoolError>) {
    if let Err(error) = result {
        log::error!("{}", chain(&error));
    }
}

/// What a crash left between the answer and the end of the request: DLM may not have heard of it, and hearing it twice does no
/// harm. Gives back the requests that could not be taken away.
pub(super) async fn finish(
    config: Arc<FenceConfig>,
    spool: Spool,
    node: NodeName,
    answered: Vec<(FileName, bool)>,
) -> Vec<FileName> {
    if answered.iter().any(|(_, success)| *success) {
        tell_dlm(&config, &node).await;
    }
    let mut left = Vec::new();
    for (name, _) in answered {
        left.extend(take_away(&spool, name).await);
    }
    left
}

//! Carries out a fence: detaches all namespaces concerned, reads the drives again, and decides whether
//! the fence is proved.

use std::{fmt, sync::Arc, time::Duration};

use api::{NnfNodeBlockStorage, SystemConfiguration, names::SYSTEM_CONFIGURATION};
use apiclient::plain;
use daemon::{blocking, chain};
use kube::{Api, Client, api::ListParams, core::DeserializeGuard};
use prometheus_client::metrics::counter::Counter;
use serde::de::DeserializeOwned;
use storage::{Converger, Desired, Observed, desired::NodeName};
use thiserror::Error;
use tokio::sync::Notify;

use super::{
    Fences,
    fenced_namespaces::{FencedNamespaces, Hosts},
    proof::{to_detach, unproved},
    response::Verdict,
};
use crate::chassis::Chassis;

/// Longest wait for attachments that have begun. The requester waits meanwhile, and requests again after a failure.
const ATTACHED_WITHIN: Duration = Duration::from_secs(15);

/// Longest wait for a list from the API. A healthy API answers in less than a second.
const LISTED_WITHIN: Duration = Duration::from_secs(8);

/// Clients and state that a fence needs.
pub struct Tools {
    pub node: NodeName,
    pub client: Client,
    pub converger: Arc<Converger>,
    pub fences: Fences,
    /// Notified when the fenced nodes changed, or when the agent can or cannot tell them any more.
    pub changed: Arc<Notify>,
    /// Counts the requests on which the agent began to work.
    pub requests: Counter,
}

impl fmt::Debug for Tools {
    /// Leaves out the client, which has no Debug output.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tools").field("node", &self.node).finish_non_exhaustive()
    }
}

/// Why a fence is not proved.
#[derive(Debug, Error)]
enum DetachError {
    /// An agent that fenced its own rabbit would fence every compute.
    #[error("{0} is this rabbit itself, and its agent does not fence it: switch it off")]
    Itself(NodeName),
    /// The attachment that has not ended could restore access that the fence takes away.
    #[error("the attachment of a GFS2's namespace to the node has not ended within {} s", ATTACHED_WITHIN.as_secs())]
    Busy,
    #[error("the API does not list the NnfNodeBlockStorages of this rabbit: {0}")]
    List(String),
    #[error("the API does not return SystemConfiguration default/default: {0}")]
    Chassis(String),
    #[error("the drives cannot be queried: {0}")]
    Observe(String),
    /// Neither chassis nor drives know the node: most likely the node has another name here.
    #[error(
        "no compute of this rabbit is called {0}: name cluster nodes as SystemConfiguration default/default does"
    )]
    Unknown(NodeName),
    /// The kinds of access that the node still has or may have.
    #[error("{}", .0.join("; "))]
    Unproved(Vec<String>),
}

/// Detaches every GFS2 of this rabbit from `node`.
pub(super) async fn detach(tools: &Tools, node: &NodeName) -> Verdict {
    detach_and_prove(tools, node).await.unwrap_or_else(|error| not_proved(node, &error.to_string()))
}

/// Returns the verdict that the fence is not proved, with the reason `why`.
pub(super) fn not_proved(node: &NodeName, why: &str) -> Verdict {
    Verdict::NotProved(format!("{node} is not fenced, or it cannot be proved: {why}"))
}

async fn detach_and_prove(tools: &Tools, node: &NodeName) -> Result<Verdict, DetachError> {
    if *node == tools.node {
        return Err(DetachError::Itself(node.clone()));
    }
    let quiet =
        tokio::time::timeout(ATTACHED_WITHIN, tools.fences.wait_for_attachments(node)).await;
    quiet.map_err(|_| DetachError::Busy)?;
    // The drives are read before the API: so the API has the object of each namespace that the drives show, unless the
    // object was deleted.
    let before = observe(tools).await?;
    let fenced = FencedNamespaces::new(&objects(tools).await?);
    let hosts = Hosts::new(node, &chassis(tools).await?);
    let is_named = fenced.names_host(node);
    let has_access = before
        .namespaces
        .iter()
        .any(|namespace| namespace.access.iter().any(|host| hosts.is_target(host)));
    if !(hosts.is_of_the_chassis || is_named || has_access) {
        return Err(DetachError::Unknown(node.clone()));
    }
    let units = to_detach(&before, &fenced, &hosts);
    let (count, failures) = detach_units(tools, units).await;
    let after = observe(tools).await?;
    let mut left = unproved(&after, &fenced, &hosts);
    if !left.is_empty() {
        left.extend(failures);
        return Err(DetachError::Unproved(left));
    }
    Ok(if is_named || count > 0 {
        Verdict::Detached(format!(
            "{node} reaches no namespace of a GFS2 on {}: {count} were detached, and every drive was queried again",
            tools.node
        ))
    } else {
        // The sites' Go agent uses this text.
        Verdict::Nothing("No block storage resources found to fence".to_owned())
    })
}

/// Detaches the units, and returns the number of detached namespaces and the failures.
async fn detach_units(tools: &Tools, units: Vec<Desired>) -> (usize, Vec<String>) {
    let converger = Arc::clone(&tools.converger);
    let results = blocking(move || converger.converge_all(&units)).await;
    let (mut count, mut failures) = (0, Vec::new());
    for result in results {
        match result {
            Ok(converged) => count += converged.steps.len(),
            Err(error) => failures.push(chain(&error)),
        }
    }
    (count, failures)
}

async fn observe(tools: &Tools) -> Result<Observed, DetachError> {
    let converger = Arc::clone(&tools.converger);
    let observed = blocking(move || converger.observe(&Desired::Inventory)).await;
    observed.map_err(|error| DetachError::Observe(chain(&error)))
}

/// Lists all objects from the API itself, because a watch may be behind.
async fn objects(tools: &Tools) -> Result<Vec<DeserializeGuard<NnfNodeBlockStorage>>, DetachError> {
    let api = Api::namespaced(tools.client.clone(), tools.node.as_str());
    list(&api, ListParams::default()).await.map_err(DetachError::List)
}

async fn chassis(tools: &Tools) -> Result<Chassis, DetachError> {
    let api = Api::<SystemConfiguration>::namespaced(tools.client.clone(), SYSTEM_CONFIGURATION);
    // Lists and filters, because a rabbit has the right to list SystemConfigurations, but not to get a single one.
    let only_default =
        ListParams::default().fields(&format!("metadata.name={SYSTEM_CONFIGURATION}"));
    let systems = list(&api, only_default).await.map_err(DetachError::Chassis)?;
    Ok(Chassis::new(&tools.node, systems.first()))
}

async fn list<K: Clone + fmt::Debug + DeserializeOwned>(
    api: &Api<K>,
    filter: ListParams,
) -> Result<Vec<K>, String> {
    match tokio::time::timeout(LISTED_WITHIN, api.list(&filter)).await {
        Ok(listed) => listed.map(|list| list.items).map_err(|error| plain(&error)),
        Err(_) => Err(format!("it did not answer within {} s", LISTED_WITHIN.as_secs())),
    }
}

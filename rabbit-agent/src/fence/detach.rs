//! The fence itself: withdraw everything, look again, and say what is proved.

use std::{fmt::Debug, sync::Arc, time::Duration};

use api::{NnfNodeBlockStorage, SystemConfiguration, names::SYSTEM_CONFIGURATION};
use apiclient::plain;
use daemon::chain;
use kube::{Api, Client, api::ListParams, core::DeserializeGuard};
use serde::de::DeserializeOwned;
use storage::{Converger, Desired, Observed, desired::NodeName};
use thiserror::Error;

use super::{
    Fences,
    claims::{Claims, Who},
    proof::{to_detach, unproved},
    response::Verdict,
};
use crate::{chassis::Chassis, pass::blocking};

/// An attachment that has begun is not waited for longer: whoever asked waits too, and asks again.
const ATTACHED_WITHIN: Duration = Duration::from_secs(15);

/// An API that is well answers a list in less than a second.
const LISTED_WITHIN: Duration = Duration::from_secs(8);

/// What a fence works with.
#[derive(Clone)]
pub(crate) struct Tools {
    /// This rabbit.
    pub(crate) node: NodeName,
    /// The API.
    pub(crate) client: Client,
    /// The node's storage.
    pub(crate) converger: Arc<Converger>,
    /// Who may be given what.
    pub(crate) fences: Fences,
}

/// Why nothing is proved.
#[derive(Debug, Error)]
enum DetachError {
    /// An agent that cuts its own rabbit off would fence every compute.
    #[error("{0} is this rabbit itself, and its agent does not fence it: switch it off")]
    Itself(NodeName),
    /// What is withdrawn could be given back.
    #[error("a namespace of a GFS2 is being attached to it, and that has not ended within {} s", ATTACHED_WITHIN.as_secs())]
    Busy,
    /// Whose the namespaces are is not known.
    #[error("the API does not list the NnfNodeBlockStorages of this rabbit: {0}")]
    List(String),
    /// Who sits where is not known.
    #[error("the API does not tell SystemConfiguration default/default: {0}")]
    Chassis(String),
    /// Who reaches what is not known.
    #[error("the drives cannot be looked at: {0}")]
    Look(String),
    /// Nothing here has ever heard of it: most likely it is called otherwise here.
    #[error(
        "no compute of this rabbit is called {0}: name cluster nodes as SystemConfiguration default/default does"
    )]
    Unknown(NodeName),
    /// What remains.
    #[error("{}", .0.join("; "))]
    Unproved(Vec<String>),
}

/// Takes every GFS2 of this rabbit from `node`.
pub(super) async fn detach(tools: &Tools, node: &NodeName) -> Verdict {
    detach_and_prove(tools, node).await.unwrap_or_else(|error| not_proved(node, &error.to_string()))
}

/// The answer when `why` keeps it from being proved.
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
    // Drives first: of what is on them the API has heard before.
    let before = look(tools).await?;
    let claims = Claims::of(&objects(tools).await?);
    let who = Who::of(node, &chassis(tools).await?);
    let named = claims.name(node);
    let seen =
        before.namespaces.iter().any(|namespace| namespace.access.iter().any(|host| who.is(host)));
    if !(who.is_of_the_chassis || named || seen) {
        return Err(DetachError::Unknown(node.clone()));
    }
    let units = to_detach(&before, &claims, &who);
    let (count, failures) = withdraw(tools, units).await;
    let after = look(tools).await?;
    let mut left = unproved(&after, &claims, &who);
    if !left.is_empty() {
        left.extend(failures);
        return Err(DetachError::Unproved(left));
    }
    Ok(if named || count > 0 {
        Verdict::Detached(format!(
            "{node} reaches no namespace of a GFS2 on {}: {count} were detached, and every drive was looked at again",
            tools.node
        ))
    } else {
        // The words that the Go agent uses.
        Verdict::Nothing("No block storage resources found to fence".to_owned())
    })
}

/// How many namespaces were detached, and what failed.
async fn withdraw(tools: &Tools, units: Vec<Desired>) -> (usize, Vec<String>) {
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

async fn look(tools: &Tools) -> Result<Observed, DetachError> {
    let converger = Arc::clone(&tools.converger);
    let seen = blocking(move || converger.observe(&Desired::Inventory)).await;
    seen.map_err(|error| DetachError::Look(chain(&error)))
}

/// All of them, from the API and not from a watch, which may be behind.
async fn objects(tools: &Tools) -> Result<Vec<DeserializeGuard<NnfNodeBlockStorage>>, DetachError> {
    let api = Api::namespaced(tools.client.clone(), tools.node.as_str());
    listed(&api, ListParams::default()).await.map_err(DetachError::List)
}

async fn chassis(tools: &Tools) -> Result<Chassis, DetachError> {
    let api = Api::<SystemConfiguration>::namespaced(tools.client.clone(), SYSTEM_CONFIGURATION);
    // As it is watched: a rabbit has no right to get it.
    let one = ListParams::default().fields(&format!("metadata.name={SYSTEM_CONFIGURATION}"));
    let systems = listed(&api, one).await.map_err(DetachError::Chassis)?;
    Ok(Chassis::new(&tools.node, systems.first()))
}

async fn listed<K: Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
    which: ListParams,
) -> Result<Vec<K>, String> {
    match tokio::time::timeout(LISTED_WITHIN, api.list(&which)).await {
        Ok(listed) => listed.map(|list| list.items).map_err(|error| plain(&error)),
        Err(_) => Err(format!("it did not answer within {} s", LISTED_WITHIN.as_secs())),
    }
}

//! Makes changes. No other module of the engine writes to the API.

use std::collections::BTreeSet;

use apiclient::plain;
use controller::Retry;
use futures::{StreamExt, stream};
use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
    },
};
use thiserror::Error;

use crate::{
    change::{Change, ClaimRef, Target},
    claims::{SharedLease, is_held},
};

/// Maximum number of changes of one plan that are made at the same time.
const SIDE_BY_SIDE: usize = 64;

/// The error of a change that needs a claim, if this coordinator has not renewed its Lease in time.
#[derive(Debug, Error)]
#[error("this coordinator did not renew its Lease in time: another may take its claims over")]
struct LeaseNotRenewed;

/// The result of a plan's changes.
#[derive(Debug, Default)]
pub struct ExecutedChanges {
    /// Objects as the API stored them.
    pub stored: Vec<Stored>,
    /// The changes that failed, and when to try again.
    pub failures: Vec<(Refusal, Retry)>,
    /// How many of the failures are due to lost claims: another coordinator has taken the claim over.
    pub lost_claims: usize,
    /// True if an object to be changed no longer exists, and the watch has not delivered its deletion yet.
    pub is_behind: bool,
}

/// The reason why the API did not make a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The change, the cause, and the remedy if known.
    pub text: String,
    /// True if the API will refuse this change again until it is planned differently: the object breaks a rule. False
    /// for a name that is taken, which may become free.
    pub is_final: bool,
}

/// An object as the API stored it.
#[derive(Debug)]
pub struct Stored {
    pub object: DynamicObject,
    /// True if the change created the object.
    pub is_new: bool,
}

/// Makes all changes side by side. Before this, reads the claims that the changes need from the API, and drops the
/// changes whose claim another coordinator has taken over.
pub async fn execute(
    client: &Client,
    changes: Vec<Change>,
    lease: &SharedLease,
) -> ExecutedChanges {
    let mut executed = ExecutedChanges::default();
    let changes = drop_unclaimed(client, changes, &mut executed).await;
    let each = changes.into_iter().map(|change| async move {
        let done = match &change {
            // The API confirmed the claim a moment ago; the Lease may have expired since.
            Change::IfClaimed(..) if !lease.may_act() => {
                Err(kube::Error::Service(LeaseNotRenewed.into()))
            }
            change => make_change(client, change).await,
        };
        if done.is_ok() {
            log::debug!("done: {change}");
        }
        (change, done)
    });
    let mut all = stream::iter(each).buffer_unordered(SIDE_BY_SIDE);
    while let Some((change, done)) = all.next().await {
        match done {
            Ok(Some(object)) => {
                let is_new = matches!(change.inner(), Change::Create(..));
                executed.stored.push(Stored { object, is_new });
            }
            Ok(None) => {}
            Err(error) if is_gone(&change, &error) => executed.is_behind = true,
            Err(error) => {
                executed.failures.push((refusal(&change, &error), retry_delay(&error)));
            }
        }
    }
    executed
}

/// Drops changes whose claim is lost, or could not be read.
async fn drop_unclaimed(
    client: &Client,
    changes: Vec<Change>,
    executed: &mut ExecutedChanges,
) -> Vec<Change> {
    let claim_of = |change: &Change| match change {
        Change::IfClaimed(claim, _) => Some(claim.clone()),
        _ => None,
    };
    let claims: BTreeSet<ClaimRef> = changes.iter().filter_map(claim_of).collect();
    let mut confirmed = BTreeSet::new();
    for claim in claims {
        let ClaimRef { namespace, name, epoch, .. } = &claim;
        let description = format!("claim {epoch} of ContainerRun {namespace}/{name}");
        match is_held(client, &claim).await {
            Ok(true) => drop(confirmed.insert(claim)),
            Ok(false) => {
                executed
                    .failures
                    .push((temporary_refusal(format!("{description} is lost")), Retry::Soon));
                executed.lost_claims += 1;
            }
            Err(error) => {
                executed.failures.push((
                    temporary_refusal(format!("{description}: {}", plain(&error))),
                    retry_delay(&error),
                ));
            }
        }
    }
    let is_confirmed =
        |change: &Change| claim_of(change).is_none_or(|claim| confirmed.contains(&claim));
    changes.into_iter().filter(is_confirmed).collect()
}

async fn make_change(client: &Client, change: &Change) -> kube::Result<Option<DynamicObject>> {
    let Target { resource, namespace, name } = change.target();
    let api: Api<DynamicObject> = if namespace.is_empty() {
        Api::all_with(client.clone(), resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, resource)
    };
    let parameters = PatchParams::default();
    match change {
        Change::Create(_, object) => api.create(&PostParams::default(), object).await.map(Some),
        Change::CreateKeys(_, secret) => with_keys(&api, secret).await.map(Some),
        Change::Patch(_, patch) => {
            let patch = Patch::Json::<()>(patch.clone());
            api.patch(name, &parameters, &patch).await.map(Some)
        }
        Change::Status(_, patch) => {
            let patch = Patch::Json::<()>(patch.clone());
            api.patch_status(name, &parameters, &patch).await.map(Some)
        }
        Change::Delete(_, uid) => delete(&api, resource, name, uid).await,
        Change::IfClaimed(_, change) => Box::pin(make_change(client, change)).await,
    }
}

/// Creates a Secret with new keys, which the coordinator does not keep; an existing Secret counts as success.
async fn with_keys(
    api: &Api<DynamicObject>,
    secret: &DynamicObject,
) -> kube::Result<DynamicObject> {
    let mut filled = secret.clone();
    let keys = podhelper::keys::generate().map_err(|error| kube::Error::Service(error.into()))?;
    filled.data["stringData"] = keys.into_iter().collect();
    match api.create(&PostParams::default(), &filled).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        done => drop(done?),
    }
    Ok(secret.clone())
}

/// Deletes the object if it still has this uid.
async fn delete(
    api: &Api<DynamicObject>,
    resource: &ApiResource,
    name: &str,
    uid: &str,
) -> kube::Result<Option<DynamicObject>> {
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    // Foreground deletion keeps the Job while any of its pods exists.
    let foreground = resource.kind == "Job";
    let parameters = if foreground { DeleteParams::foreground() } else { DeleteParams::default() };
    match api.delete(name, &parameters.preconditions(preconditions)).await {
        Ok(deleted) => Ok(deleted.left()),
        // The object is gone, or a new object has its name.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
        Err(error) => Err(error),
    }
}

fn temporary_refusal(text: String) -> Refusal {
    Refusal { text, is_final: false }
}

/// Returns the refusal that users read for a failed change.
fn refusal(change: &Change, error: &kube::Error) -> Refusal {
    let remedy = match error {
        kube::Error::Api(status) if status.is_already_exists() => {
            ": that object exists and does not belong to this workflow; find its owner, or use another name for the workflow"
        }
        _ => "",
    };
    let is_final = matches!(change.inner(), Change::Create(..))
        && matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 422));
    Refusal { text: format!("{change}: {}{remedy}", plain(error)), is_final }
}

/// Returns true if the object to be changed no longer exists, which is no failure. An API that does not serve the kind
/// also answers 404, but names no object.
fn is_gone(change: &Change, error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let names_object = || {
        let details = status.details.as_ref();
        details.is_some_and(|details| details.name == change.target().name)
    };
    matches!(change.inner(), Change::Patch(..) | Change::Status(..))
        && status.code == 404
        && names_object()
}

/// Returns when to try again. After 404, 409 and 422, soon: the object has changed or is gone, and the watch is about
/// to deliver the change. After other errors, later: they last until the API answers again or an administrator acts.
fn retry_delay(error: &kube::Error) -> Retry {
    match error {
        kube::Error::Api(status) if matches!(status.code, 404 | 409 | 422) => Retry::Soon,
        _ => Retry::Later,
    }
}

#[cfg(test)]
mod tests {
    use api::Servers;
    use kube::core::Status;

    use super::*;

    fn api_error(code: u16, name: Option<&str>) -> kube::Error {
        let status = serde_json::json!({"code": code, "details": name.map(|name| serde_json::json!({"name": name}))});
        let status: Status = serde_json::from_value(status).unwrap();
        kube::Error::Api(Box::new(status))
    }

    #[test]
    fn is_gone_is_true_only_for_a_404_of_a_patch_that_names_its_object() {
        let before = Servers::new("w-0", api::ServersSpec::default());
        let mut after = before.clone();
        after.metadata.finalizers = Some(vec!["f".to_owned()]);
        let patch = Change::patch(&before, &after).unwrap();
        assert!(is_gone(&patch, &api_error(404, Some("w-0"))));
        assert!(!is_gone(&patch, &api_error(404, None)), "the API serves no such kind");
        assert!(!is_gone(&patch, &api_error(409, Some("w-0"))));
        assert!(
            !is_gone(&Change::create(&before), &api_error(404, Some("w-0"))),
            "its namespace is missing"
        );
    }
}

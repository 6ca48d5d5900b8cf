//! Makes changes: the one place of the engine that writes to the API.

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

/// Changes that are made at the same time for one plan.
const SIDE_BY_SIDE: usize = 64;

/// Why a change under a claim was not made.
#[derive(Debug, Error)]
#[error("this coordinator did not renew its Lease in time: another may take its claims over")]
struct LeaseNotRenewed;

/// What became of a plan's changes.
#[derive(Debug, Default)]
pub struct Made {
    /// Objects as the API stored them.
    pub stored: Vec<Stored>,
    /// The changes that failed, and when to try again.
    pub failures: Vec<(Refusal, Retry)>,
    /// How many of these are claims that were lost.
    pub lost_claims: usize,
    /// Whether an object that was to be changed is gone: the watch has not brought its end yet.
    pub is_behind: bool,
}

/// Why the API did not make a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The change, the cause, and the remedy if one is known.
    pub text: String,
    /// Whether the API refuses the change as long as it stays the same: the object breaks a rule. A name that is taken may become
    /// free.
    pub is_final: bool,
}

/// An object as the API stored it.
#[derive(Debug)]
pub struct Stored {
    /// The object.
    pub object: DynamicObject,
    /// Whether it is new.
    pub is_new: bool,
}

/// Makes all changes side by side. First it asks the API for the claims under which they were planned, and drops the changes of
/// claims that are lost.
pub async fn execute(client: &Client, changes: Vec<Change>, lease: &SharedLease) -> Made {
    let mut made = Made::default();
    let changes = still_held(client, changes, &mut made).await;
    let each = changes.into_iter().map(|change| async move {
        let done = match &change {
            // The answer that the claim still holds may have been long on its way.
            Change::IfClaimed(..) if !lease.may_act() => {
                Err(kube::Error::Service(LeaseNotRenewed.into()))
            }
            change => one(client, change).await,
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
                let is_new = matches!(change.bare(), Change::Create(..));
                made.stored.push(Stored { object, is_new });
            }
            Ok(None) => {}
            Err(error) if is_gone(&change, &error) => made.is_behind = true,
            Err(error) => {
                made.failures.push((refusal(&change, &error), retry(&error)));
            }
        }
    }
    made
}

/// Drops the changes whose claim is lost, and those whose claim the API could not be asked for.
async fn still_held(client: &Client, changes: Vec<Change>, made: &mut Made) -> Vec<Change> {
    let by = |change: &Change| match change {
        Change::IfClaimed(hold, _) => Some(hold.clone()),
        _ => None,
    };
    let holds: BTreeSet<ClaimRef> = changes.iter().filter_map(by).collect();
    let mut kept = BTreeSet::new();
    for hold in holds {
        let ClaimRef { namespace, name, epoch, .. } = &hold;
        let of = format!("claim {epoch} of ContainerRun {namespace}/{name}");
        match is_held(client, &hold).await {
            Ok(true) => drop(kept.insert(hold)),
            Ok(false) => {
                made.failures.push((passing(format!("{of} is lost")), Retry::Soon));
                made.lost_claims += 1;
            }
            Err(error) => {
                made.failures.push((passing(format!("{of}: {}", plain(&error))), retry(&error)));
            }
        }
    }
    let is_kept = |change: &Change| by(change).is_none_or(|hold| kept.contains(&hold));
    changes.into_iter().filter(is_kept).collect()
}

async fn one(client: &Client, change: &Change) -> kube::Result<Option<DynamicObject>> {
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
        Change::Delete(_, uid) => deleted(&api, resource, name, uid).await,
        Change::IfClaimed(_, change) => Box::pin(one(client, change)).await,
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

/// Deletes the object with this uid.
async fn deleted(
    api: &Api<DynamicObject>,
    resource: &ApiResource,
    name: &str,
    uid: &str,
) -> kube::Result<Option<DynamicObject>> {
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    // A Job that is there says that its pods may be.
    let foreground = resource.kind == "Job";
    let parameters = if foreground { DeleteParams::foreground() } else { DeleteParams::default() };
    match api.delete(name, &parameters.preconditions(preconditions)).await {
        Ok(deleted) => Ok(deleted.left()),
        // It is gone, or another one has its name.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
        Err(error) => Err(error),
    }
}

fn passing(text: String) -> Refusal {
    Refusal { text, is_final: false }
}

/// What a user reads of a change that failed.
fn refusal(change: &Change, error: &kube::Error) -> Refusal {
    let remedy = match error {
        kube::Error::Api(status) if status.is_already_exists() => {
            ": the engine does not know that object as this workflow's; find out whose it is, or use another name for the workflow"
        }
        _ => "",
    };
    let is_final = matches!(change.bare(), Change::Create(..))
        && matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 422));
    Refusal { text: format!("{change}: {}{remedy}", plain(error)), is_final }
}

/// Whether a change came too late for an object that is gone, which is no failure. An API that serves no such kind answers 404 without
/// naming an object.
fn is_gone(change: &Change, error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let names_it = || {
        let details = status.details.as_ref();
        details.is_some_and(|details| details.name == change.target().name)
    };
    matches!(change.bare(), Change::Patch(..) | Change::Status(..))
        && status.code == 404
        && names_it()
}

/// On 404, 409 and 422 somebody else was quicker, or the object is gone: the watch brings what there is now. All other errors last
/// until the API answers again or an administrator acts.
fn retry(error: &kube::Error) -> Retry {
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

    fn answer(code: u16, name: Option<&str>) -> kube::Error {
        let status = serde_json::json!({"code": code, "details": name.map(|name| serde_json::json!({"name": name}))});
        let status: Status = serde_json::from_value(status).unwrap();
        kube::Error::Api(Box::new(status))
    }

    #[test]
    fn a_change_of_an_object_that_is_gone_is_no_failure() {
        let before = Servers::new("w-0", api::ServersSpec::default());
        let mut after = before.clone();
        after.metadata.finalizers = Some(vec!["f".to_owned()]);
        let patch = Change::patch(&before, &after).unwrap();
        assert!(is_gone(&patch, &answer(404, Some("w-0"))));
        assert!(!is_gone(&patch, &answer(404, None)), "the API serves no such kind");
        assert!(!is_gone(&patch, &answer(409, Some("w-0"))));
        assert!(
            !is_gone(&Change::create(&before), &answer(404, Some("w-0"))),
            "its namespace is missing"
        );
    }
}

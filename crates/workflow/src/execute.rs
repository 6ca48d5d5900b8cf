//! Makes changes: the one place of the engine that writes to the API.

use apiclient::plain;
use controller::Retry;
use futures::{StreamExt, stream};
use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
    },
};

use crate::change::{Change, Target};

/// Changes that are made at the same time for one plan.
const SIDE_BY_SIDE: usize = 64;

/// What became of a plan's changes.
#[derive(Debug, Default)]
pub struct Made {
    /// Objects as the API stored them.
    pub stored: Vec<Stored>,
    /// What the API did not do, in words, and when to try again.
    pub failures: Vec<(String, Retry)>,
}

/// An object as the API stored it.
#[derive(Debug)]
pub struct Stored {
    /// The object.
    pub object: DynamicObject,
    /// Whether it is new.
    pub is_new: bool,
}

/// Makes all changes, side by side.
pub async fn execute(client: &Client, changes: Vec<Change>) -> Made {
    let each = changes.into_iter().map(|change| async move {
        let done = one(client, &change).await;
        if done.is_ok() {
            log::debug!("done: {change}");
        }
        (change, done)
    });
    let mut all = stream::iter(each).buffer_unordered(SIDE_BY_SIDE);
    let mut made = Made::default();
    while let Some((change, done)) = all.next().await {
        match done {
            Ok(Some(object)) => {
                let is_new = matches!(change, Change::Create(..));
                made.stored.push(Stored { object, is_new });
            }
            Ok(None) => {}
            Err(error) => {
                made.failures.push((format!("{change}: {}", plain(&error)), retry(&error)));
            }
        }
    }
    made
}

async fn one(client: &Client, change: &Change) -> kube::Result<Option<DynamicObject>> {
    let Target { resource, namespace, name } = change.target();
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    let parameters = PatchParams::default();
    match change {
        Change::Create(_, object) => api.create(&PostParams::default(), object).await.map(Some),
        Change::Keys(_, secret) => with_keys(&api, secret).await.map(Some),
        Change::Patch(_, patch) => {
            let patch = Patch::Json::<()>(patch.clone());
            api.patch(name, &parameters, &patch).await.map(Some)
        }
        Change::Status(_, patch) => {
            let patch = Patch::Json::<()>(patch.clone());
            api.patch_status(name, &parameters, &patch).await.map(Some)
        }
        Change::Delete(_, uid) => deleted(&api, resource, name, uid).await,
    }
}

/// Creates a Secret with new keys, or finds it there. Who made them forgets them.
async fn with_keys(
    api: &Api<DynamicObject>,
    secret: &DynamicObject,
) -> kube::Result<DynamicObject> {
    let mut filled = secret.clone();
    let keys = podhelper::keys::make().map_err(|error| kube::Error::Service(error.into()))?;
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

/// Somebody else was quicker, or the object went: the watch brings what there is now. All else takes somebody to mend it.
fn retry(error: &kube::Error) -> Retry {
    match error {
        kube::Error::Api(status) if matches!(status.code, 404 | 409 | 422) => Retry::Soon,
        _ => Retry::Later,
    }
}

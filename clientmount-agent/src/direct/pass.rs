//! A pass of the direct mode over one ClientMount: a write to the object, and at the same time a read of the profile
//! that the object names.

use std::{io, time::Duration};

use api::{ClientMount, NnfStorageProfile, NoProfile, names::finalizer};
use apiclient::plain;
use controller::{
    ObjectKey,
    patch::{self, WriteError},
};
use futures::future::{OptionFuture, join};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};
use tokio::time::timeout;

use super::state::{ApiRequests, Profile, Write};

/// How long the API may take to answer a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A pass that has ended.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) requests: ApiRequests,
    /// The result of the write: the new version of the object, if the write changed the object.
    pub(super) written: Option<Result<Option<ClientMount>, WriteError>>,
    /// The result of the read: the profile, or why the API gave no answer.
    pub(super) profile: Option<Result<Profile, String>>,
}

pub(super) async fn pass(client: Client, requests: ApiRequests) -> Passed {
    let written = requests.write.as_ref().map(|change| write(&client, &requests.object, change));
    let profile = requests.read.as_ref().map(|profile| read(&client, profile));
    // The agent sends both requests at once, so that the job waits for the slower one and not for both in turn.
    let (written, profile) = join(OptionFuture::from(written), OptionFuture::from(profile)).await;
    Passed { requests, written, profile }
}

async fn write(
    client: &Client,
    object: &ClientMount,
    write: &Write,
) -> Result<Option<ClientMount>, WriteError> {
    let writing = async {
        match write {
            Write::AddFinalizer => {
                patch::add_finalizer(client, object, finalizer::CLIENT_MOUNT).await
            }
            Write::Status(status) => {
                let after = ClientMount { status: Some(status.clone()), ..object.clone() };
                patch::status(client, object, &after).await
            }
            Write::RemoveFinalizer => {
                patch::remove_finalizer(client, object, finalizer::CLIENT_MOUNT).await
            }
        }
    };
    timeout(REQUEST_TIMEOUT, writing).await.unwrap_or_else(|_| {
        let timed_out = io::Error::new(io::ErrorKind::TimedOut, no_answer());
        let source = Box::new(kube::Error::Service(timed_out.into()));
        Err(WriteError::Api { object: controller::describe(object), source })
    })
}

/// Reads a profile with the verb `get`, because the role of computes has no other right on profiles.
pub(crate) async fn read(
    client: &Client,
    (namespace, name): &ObjectKey,
) -> Result<Result<NnfStorageProfile, NoProfile>, String> {
    let resource = ApiResource::erase::<NnfStorageProfile>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let failed = |why| Err(format!("read NnfStorageProfile {namespace}/{name}: {why}"));
    match timeout(REQUEST_TIMEOUT, api.get_opt(name)).await {
        Ok(Ok(Some(object))) => Ok(object.try_parse().map_err(|error| {
            let text = format!("NnfStorageProfile {namespace}/{name} cannot be read: {error}");
            NoProfile::Missing(text)
        })),
        Ok(Ok(None)) => Ok(Err(NoProfile::not_found(namespace, name))),
        // The refusal goes into the object's status, so that the user can tell an administrator, who can grant the
        // right.
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            Ok(Err(NoProfile::forbidden(namespace, name, "get", &status.message)))
        }
        Ok(Err(error)) => failed(plain(&error)),
        Err(_) => failed(no_answer()),
    }
}

fn no_answer() -> String {
    format!("no answer within {} s", REQUEST_TIMEOUT.as_secs())
}

//! One pass over one ClientMount: a write to it, and at the same time a read of the profile that it names.

use std::{io, time::Duration};

use api::{ClientMount, NnfStorageProfile, names::finalizer};
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

use super::state::{Profile, Todo, Write};
use agent::received::NoProfile;

/// How long the API may take to answer a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Passed {
    pub(super) done: Todo,
    /// The object as the API has it now, where the write changed it.
    pub(super) wrote: Option<Result<Option<ClientMount>, WriteError>>,
    /// The profile, or why nobody knows whether there is one.
    pub(super) read: Option<Result<Profile, String>>,
}

pub(super) async fn pass(client: Client, todo: Todo) -> Passed {
    let wrote = todo.write.as_ref().map(|change| write(&client, &todo.object, change));
    let read = todo.read.as_ref().map(|profile| read(&client, profile));
    // The agent sends both at once, so that the job waits for the slower one and not for both in turn.
    let (wrote, read) = join(OptionFuture::from(wrote), OptionFuture::from(read)).await;
    Passed { done: todo, wrote, read }
}

async fn write(
    client: &Client,
    object: &ClientMount,
    write: &Write,
) -> Result<Option<ClientMount>, WriteError> {
    let writing = async {
        match write {
            Write::Finalizer => patch::add_finalizer(client, object, finalizer::CLIENT_MOUNT).await,
            Write::Status(status) => {
                let after = ClientMount { status: Some(status.clone()), ..object.clone() };
                patch::status(client, object, &after).await
            }
            Write::Release => {
                patch::remove_finalizer(client, object, finalizer::CLIENT_MOUNT).await
            }
        }
    };
    timeout(REQUEST_TIMEOUT, writing).await.unwrap_or_else(|_| {
        let silence = io::Error::new(io::ErrorKind::TimedOut, no_answer());
        let source = Box::new(kube::Error::Service(silence.into()));
        Err(WriteError::Api { object: controller::describe(object), source })
    })
}

/// Reads a profile with a get, the only right on profiles that the role of computes has.
async fn read(client: &Client, (namespace, name): &ObjectKey) -> Result<Profile, String> {
    let resource = ApiResource::erase::<NnfStorageProfile>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let asked = format!("NnfStorageProfile {namespace}/{name}");
    let missing = |why| Ok(Err(NoProfile::Missing(why)));
    match timeout(REQUEST_TIMEOUT, api.get_opt(name)).await {
        Ok(Ok(Some(object))) => match object.try_parse() {
            Ok(profile) => Ok(Ok(profile)),
            Err(error) => missing(format!("{asked} cannot be read: {error}")),
        },
        Ok(Ok(None)) => {
            missing(format!("{asked} does not exist: create it, with data.pinned true"))
        }
        // The object's status says so, because only an administrator can grant the right.
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            Ok(Err(NoProfile::Forbidden(format!(
                "{asked} cannot be read: {}: grant this agent get on nnfstorageprofiles.nnf.cray.hpe.com",
                status.message
            ))))
        }
        Ok(Err(error)) => Err(format!("read {asked}: {}", plain(&error))),
        Err(_) => Err(format!("read {asked}: {}", no_answer())),
    }
}

fn no_answer() -> String {
    format!("no answer within {} s", REQUEST_TIMEOUT.as_secs())
}

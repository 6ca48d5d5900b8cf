//! One pass over one ClientMount: a write to it, and beside that the profile that it names.

use std::{io, time::Duration};

use api::{ClientMount, NnfStorageProfile, names::finalizer};
use apiclient::plain;
use controller::{
    Place,
    patch::{self, WriteError},
};
use futures::future::{OptionFuture, join};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};
use tokio::time::timeout;

use super::state::{Profile, Todo, Write};
use agent::desire::NoProfile;

/// An API server that took a request and answers nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a pass brought.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) done: Todo,
    /// The object as the API has it now, where the write changed it.
    pub(super) wrote: Option<Result<Option<ClientMount>, WriteError>>,
    /// The profile, or why nobody knows whether there is one.
    pub(super) read: Option<Result<Profile, String>>,
}

/// Asks the API for what is to be done.
pub(super) async fn pass(client: Client, todo: Todo) -> Passed {
    let wrote = todo.write.as_ref().map(|it| write(&client, &todo.object, it));
    let read = todo.read.as_ref().map(|profile| read(&client, profile));
    // Both are on their way at once: the job waits for the longer and not for one after the other.
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
    timeout(PATIENCE, writing).await.unwrap_or_else(|_| {
        let silence = io::Error::new(io::ErrorKind::TimedOut, no_answer());
        let source = Box::new(kube::Error::Service(silence.into()));
        Err(WriteError::Api { object: controller::describe(object), source })
    })
}

/// Reads a profile, by the one right on profiles that the role of computes has.
async fn read(client: &Client, (namespace, name): &Place) -> Result<Profile, String> {
    let resource = ApiResource::erase::<NnfStorageProfile>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let asked = format!("NnfStorageProfile {namespace}/{name}");
    let missing = |why| Ok(Err(NoProfile::Missing(why)));
    match timeout(PATIENCE, api.get_opt(name)).await {
        Ok(Ok(Some(object))) => match object.try_parse() {
            Ok(profile) => Ok(Ok(profile)),
            Err(error) => missing(format!("{asked} cannot be read: {error}")),
        },
        Ok(Ok(None)) => {
            missing(format!("{asked} does not exist: create it, with data.pinned true"))
        }
        // Somebody has to grant it: the owner of the object must see why nothing happens.
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            Ok(Err(NoProfile::Unread(format!(
                "{asked} cannot be read: {}: grant this agent get on nnfstorageprofiles.nnf.cray.hpe.com",
                status.message
            ))))
        }
        Ok(Err(error)) => Err(format!("read {asked}: {}", plain(&error))),
        Err(_) => Err(format!("read {asked}: {}", no_answer())),
    }
}

fn no_answer() -> String {
    format!("no answer within {} s", PATIENCE.as_secs())
}

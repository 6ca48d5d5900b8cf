//! Writes to the API: each write is a patch with the difference between the object that was read and the wanted object.
//! Without a difference nothing is sent.

use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use thiserror::Error;

use crate::object::{Object, describe, has_finalizer};

/// The reason why a write failed, with kind, namespace and name of the object.
#[derive(Debug, Error)]
pub enum WriteError {
    /// Another client has changed the object since this program read it; the watch will deliver the new version.
    #[error("{object} has changed since it was read")]
    Conflict { object: String, source: Box<kube::Error> },
    /// The API does not know the object. This is no proof that the object was deleted: while the CRD of its kind is
    /// registered anew, the API knows no objects of the kind. Only a watch reports a deletion reliably.
    #[error("{object} is not known to the API")]
    Unknown { object: String },
    /// The API refused or could not be reached.
    #[error("write {object}")]
    Api { object: String, source: Box<kube::Error> },
    /// The write depends on whether another object exists, and the API did not answer the request for the other
    /// object. `object` names the other object.
    #[error("look for {object}")]
    Look { object: String, source: Box<kube::Error> },
}

/// The stored object after the write, or `None` if there was no difference to write.
pub type Written<K> = Result<Option<K>, WriteError>;

/// Writes the status of `after`, if it differs from that of `before`.
pub async fn status<K: Object>(client: &Client, before: &K, after: &K) -> Written<K> {
    write(client, before, after, true).await
}

/// Writes the differences between `before` and `after` outside the status.
pub async fn object<K: Object>(client: &Client, before: &K, after: &K) -> Written<K> {
    write(client, before, after, false).await
}

/// Adds a finalizer to an object that lacks it.
pub async fn add_finalizer<K: Object>(client: &Client, object: &K, finalizer: &str) -> Written<K> {
    let mut after = object.clone();
    if !has_finalizer(object, finalizer) {
        after.finalizers_mut().push(finalizer.to_owned());
    }
    write(client, object, &after, false).await
}

/// Removes a finalizer from an object that has it.
pub async fn remove_finalizer<K: Object>(
    client: &Client,
    object: &K,
    finalizer: &str,
) -> Written<K> {
    let mut after = object.clone();
    after.finalizers_mut().retain(|name| name != finalizer);
    write(client, object, &after, false).await
}

async fn write<K: Object>(client: &Client, before: &K, after: &K, to_status: bool) -> Written<K> {
    let Some(patch) = api::guarded_change(before, after) else { return Ok(None) };
    let api: Api<K> = Api::namespaced(client.clone(), &before.namespace().unwrap_or_default());
    let (name, how, patch) = (before.name_any(), PatchParams::default(), Patch::<()>::Json(patch));
    let stored = match to_status {
        true => api.patch_status(&name, &how, &patch).await,
        false => api.patch(&name, &how, &patch).await,
    };
    stored.map(Some).map_err(|error| explain(before, error))
}

/// Classifies an error: 409 is a [`WriteError::Conflict`], because each patch contains a resourceVersion.
fn explain<K: Object>(object: &K, error: kube::Error) -> WriteError {
    let object = describe(object);
    match &error {
        kube::Error::Api(status) if status.code == 409 => {
            WriteError::Conflict { object, source: Box::new(error) }
        }
        kube::Error::Api(status) if status.code == 404 => WriteError::Unknown { object },
        _ => WriteError::Api { object, source: Box::new(error) },
    }
}

#[cfg(test)]
mod tests {
    use api::ClientMount;
    use kube::core::Status;

    use super::*;

    fn explained(code: u16) -> WriteError {
        let desired_state = api::client_mount::MountState::Mounted;
        let spec = api::ClientMountSpec { node: "n1".into(), desired_state, mounts: Vec::new() };
        let mut object = ClientMount::new("a", spec);
        object.metadata.namespace = Some("n1".into());
        explain(&object, kube::Error::Api(Box::new(Status { code, ..Status::default() })))
    }

    #[test]
    fn a_409_is_a_conflict_a_404_an_unknown_object_and_other_codes_an_api_error() {
        assert!(matches!(explained(409), WriteError::Conflict { .. }));
        assert!(matches!(explained(404), WriteError::Unknown { .. }));
        for code in [403, 422, 500] {
            let error = explained(code);
            assert!(
                matches!(&error, WriteError::Api { object, .. } if object == "ClientMount n1/a"),
                "{error:?}"
            );
        }
    }
}

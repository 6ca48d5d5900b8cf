//! Writes to the API: patches with the difference between the object that was read and the one that should be, if there is any.

use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use thiserror::Error;

use crate::object::{Object, describe, has_finalizer};

/// Why a write did not happen.
#[derive(Debug, Error)]
pub enum WriteError {
    /// Somebody else wrote since the object was read; the watch brings what they wrote.
    #[error("{object} has changed since it was read")]
    Conflict {
        /// Kind, namespace and name of the object.
        object: String,
        /// The API's answer.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API does not know the object. It is gone only when its watch says so: while its CRD is registered anew, the API knows
    /// no objects of that kind.
    #[error("{object} is not known to the API")]
    Unknown {
        /// Kind, namespace and name of the object.
        object: String,
    },
    /// The API refused or could not be reached.
    #[error("write {object}")]
    Api {
        /// Kind, namespace and name of the object.
        object: String,
        /// The API's answer, or why there was none.
        #[source]
        source: Box<kube::Error>,
    },
    /// The write depends on another object, and the API did not say whether that exists.
    #[error("look for {object}")]
    Look {
        /// Kind, namespace and name of the object.
        object: String,
        /// The API's answer, or why there was none.
        #[source]
        source: Box<kube::Error>,
    },
}

/// Writes the status of `after`, if it differs from `before`, and returns the object as stored.
///
/// # Errors
/// As [`WriteError`] tells.
pub async fn status<K: Object>(
    client: &Client,
    before: &K,
    after: &K,
) -> Result<Option<K>, WriteError> {
    let Some(patch) = api::guarded_change(before, after) else { return Ok(None) };
    let at = location(client, before);
    let stored = at
        .patch_status(&before.name_any(), &PatchParams::default(), &Patch::<()>::Json(patch))
        .await;
    stored.map(Some).map_err(|error| explain(before, error))
}

/// Puts a finalizer on an object that lacks it.
///
/// # Errors
/// As [`WriteError`] tells.
pub async fn add_finalizer<K: Object>(
    client: &Client,
    object: &K,
    finalizer: &str,
) -> Result<Option<K>, WriteError> {
    let mut after = object.clone();
    if has_finalizer(object, finalizer) {
        return Ok(None);
    }
    after.finalizers_mut().push(finalizer.to_owned());
    self::object(client, object, &after).await
}

/// Takes a finalizer off an object that has it.
///
/// # Errors
/// As [`WriteError`] tells.
pub async fn remove_finalizer<K: Object>(
    client: &Client,
    object: &K,
    finalizer: &str,
) -> Result<Option<K>, WriteError> {
    let mut after = object.clone();
    after.finalizers_mut().retain(|name| name != finalizer);
    self::object(client, object, &after).await
}

/// Writes what differs outside of the status, and returns the object as stored.
///
/// # Errors
/// As [`WriteError`] tells.
pub async fn object<K: Object>(
    client: &Client,
    before: &K,
    after: &K,
) -> Result<Option<K>, WriteError> {
    let Some(patch) = api::guarded_change(before, after) else { return Ok(None) };
    let at = location(client, before);
    let stored =
        at.patch(&before.name_any(), &PatchParams::default(), &Patch::<()>::Json(patch)).await;
    stored.map(Some).map_err(|error| explain(before, error))
}

fn location<K: Object>(client: &Client, object: &K) -> Api<K> {
    Api::namespaced(client.clone(), &object.namespace().unwrap_or_default())
}

/// A patch that names a resourceVersion is refused with 409 once the object moved on.
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
    fn a_lost_race_is_told_from_a_refusal_and_from_an_object_that_is_gone() {
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

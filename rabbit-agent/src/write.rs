//! Writes to the API: the difference between what was read and what should be, and nothing when there is none.

use std::fmt::Debug;

use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::{NamespaceResourceScope, Status},
};
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// A kind that lives in a namespace and that we read and patch.
pub trait Object:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// A write that did not happen.
#[derive(Debug, Error)]
pub enum WriteError {
    /// Somebody else wrote since the object was read; the watch brings what they wrote.
    #[error("{object} has changed since it was read")]
    Conflict {
        /// Kind, namespace and name.
        object: String,
        /// In the API's words.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API knows no such object. It is gone only when its watch says so: while its kind is registered anew, the API knows
    /// none of those that are there.
    #[error("{object} is not known to the API")]
    Unknown {
        /// Kind, namespace and name.
        object: String,
    },
    /// The API refused or could not be reached.
    #[error("write {object}")]
    Api {
        /// Kind, namespace and name.
        object: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// It depends on another object, of which the API did not say whether it exists.
    #[error("look for {object}")]
    Look {
        /// Kind, namespace and name.
        object: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
}

/// Kind, namespace and name of an object, for logs and messages.
#[must_use]
pub fn describe<K: Object>(object: &K) -> String {
    format!("{} {}/{}", K::kind(&()), object.namespace().unwrap_or_default(), object.name_any())
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
    after.finalizers_mut().retain(|it| it != finalizer);
    self::object(client, object, &after).await
}

/// Whether the object carries this finalizer.
#[must_use]
pub fn has_finalizer<K: Object>(object: &K, finalizer: &str) -> bool {
    object.finalizers().iter().any(|it| it == finalizer)
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

/// A lost race is told as 409, or as 422 when the patch's `test` no longer holds. A 422 with causes is a refusal: by the schema
/// with a field, by a policy without one.
fn explain<K: Object>(object: &K, error: kube::Error) -> WriteError {
    let object = describe(object);
    let has_causes =
        |status: &Status| status.details.as_ref().is_some_and(|it| !it.causes.is_empty());
    match &error {
        kube::Error::Api(status) if status.code == 409 => {
            WriteError::Conflict { object, source: Box::new(error) }
        }
        kube::Error::Api(status) if status.code == 422 && !has_causes(status) => {
            WriteError::Conflict { object, source: Box::new(error) }
        }
        kube::Error::Api(status) if status.code == 404 => WriteError::Unknown { object },
        _ => WriteError::Api { object, source: Box::new(error) },
    }
}

#[cfg(test)]
mod tests {
    use kube::core::response::StatusCause;

    use super::*;
    use crate::samples;

    fn explained(code: u16, causes: Vec<StatusCause>) -> WriteError {
        let mut status: Status =
            serde_json::from_value(serde_json::json!({"code": code, "details": {}})).unwrap();
        if let Some(details) = &mut status.details {
            details.causes = causes;
        }
        explain(&samples::client_mount(1), kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn a_lost_race_is_told_from_a_refusal_by_schema_or_policy() {
        assert!(matches!(explained(409, Vec::new()), WriteError::Conflict { .. }));
        assert!(matches!(explained(422, Vec::new()), WriteError::Conflict { .. }));
        assert!(matches!(explained(404, Vec::new()), WriteError::Unknown { .. }));
        for field in ["status.mounts", ""] {
            let cause = StatusCause {
                reason: "FieldValueInvalid".into(),
                message: "x".into(),
                field: field.into(),
            };
            let error = explained(422, vec![cause]);
            assert!(
                matches!(&error, WriteError::Api { object, .. } if object == "ClientMount rabbit-1/default-job-7-0-servers"),
                "{error:?}"
            );
        }
    }
}

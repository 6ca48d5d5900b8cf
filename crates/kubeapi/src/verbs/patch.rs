use super::{FieldValidation, Target, admit, json_patch, strategic, update};
use crate::object::Object;
use crate::registry::Resource;
use crate::status::{Cause, Status};
use crate::store::{Batch, Outcome};
use serde_json::Value;

/// A change to an object, by the media type that it came as.
#[derive(Debug, Clone)]
pub(crate) enum Patch {
    Json(Vec<Value>),
    Merge(Value),
    /// What kubectl sends for kinds that it knows; only built-in kinds take it.
    Strategic(Value),
    /// A malformed patch, with its refusal: kube-apiserver reports a missing object first.
    Broken(Status),
}

impl Patch {
    /// # Errors
    /// 415 for a kind of patch that the resource does not take.
    pub(crate) fn check_type(media_type: &str, resource: &Resource) -> Result<(), Status> {
        match media_type {
            "application/json-patch+json" | "application/merge-patch+json" => Ok(()),
            "application/strategic-merge-patch+json" if !resource.definition.custom => Ok(()),
            "application/apply-patch+yaml" | "application/apply-patch+cbor" => {
                Err(Status::unsupported_media_type(
                    "this server does not implement server-side apply: send application/merge-patch+json, or use kubectl apply without --server-side",
                ))
            }
            _ if resource.definition.custom => Err(Status::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => Err(Status::unsupported_media_type("415: Unsupported Media Type")),
        }
    }

    /// A patch of a type that has been checked.
    pub(crate) fn read(media_type: &str, body: Value) -> Self {
        let read = match media_type {
            "application/json-patch+json" => json_patch::read(body).map(Self::Json),
            "application/strategic-merge-patch+json" => Self::read_map(body).map(Self::Strategic),
            _ => Self::read_map(body).map(Self::Merge),
        };
        read.unwrap_or_else(Self::Broken)
    }

    fn read_map(body: Value) -> Result<Value, Status> {
        if body.is_object() {
            Ok(body)
        } else {
            Err(Status::bad_request(match body {
                Value::Null => "Invalid JSON Patch",
                _ => "error decoding patch: it must be a JSON object",
            }))
        }
    }

    fn apply(&self, mut object: Value) -> Result<Value, Status> {
        match self {
            Self::Json(operations) => json_patch::apply(&mut object, operations)?,
            Self::Merge(patch) => ::json_patch::merge(&mut object, patch),
            Self::Broken(status) => return Err(status.clone()),
            Self::Strategic(patch) => strategic::merge(&mut object, patch),
        }
        Ok(object)
    }
}

/// Patches an object, or its status.
///
/// # Errors
/// 404, 409 when the patch itself names another resourceVersion, 422 when it does not fit: as kube-apiserver.
pub(crate) fn patch(
    batch: &mut Batch<'_>,
    target: &Target,
    patch: &Patch,
    strictness: FieldValidation,
) -> Result<Outcome, Status> {
    let resource = target.resolve(batch.registry())?;
    let definition = &resource.definition;
    let name = target.name.as_deref().unwrap_or_default();
    let key = target.key(definition, name);
    let stored = batch.get(&key).ok_or_else(|| Status::not_found(definition.subject(name)))?;
    let mut current = stored.decode()?;
    resource.version().show(definition, &mut current);
    let patched = patch.apply(current.to_value())?;
    let unfit = |status: Status| {
        let cause = Cause::invalid_without_value("patch", status.message);
        Status::invalid("", "", "", &[cause])
    };
    let incoming = admit::read(&resource, patched).map_err(unfit)?;
    let (object, warnings) = incoming.accept(&resource, strictness).map_err(unfit)?;
    let result = check_identity(&object, &current)
        .and_then(|()| update::check_revision(definition, &stored, &object))
        .and_then(|()| {
            let (part, warnings) = (target.subresource, warnings.clone());
            update::replace(batch, &resource, part, &key, &stored, object, warnings)
        });
    result.map_err(|status| status.warning(&warnings))
}

fn check_identity(object: &Object, current: &Object) -> Result<(), Status> {
    let (wanted, here) = (object.namespace(), current.namespace());
    if wanted != here && !wanted.is_empty() && !here.is_empty() {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    update::check_name(object, current.name())
}

use super::{FieldValidation, Target, admit, json_patch, strategic, update};
use crate::registry::Resource;
use crate::status::{Cause, Status};
use crate::store::{Batch, Outcome};
use serde_json::Value;

/// A patch, in the format that the request's media type names.
#[derive(Debug, Clone)]
pub(crate) enum Patch {
    Json(Vec<Value>),
    Merge(Value),
    /// Strategic merge patch, which kubectl sends for the kinds that are compiled into kubectl; only
    /// built-in kinds accept it.
    Strategic(Value),
}

impl Patch {
    /// Answers 415 for a type of patch that the resource does not accept.
    pub(crate) fn check_type(media_type: &str, resource: &Resource) -> Result<(), Status> {
        match media_type {
            "application/json-patch+json" | "application/merge-patch+json" => Ok(()),
            "application/strategic-merge-patch+json" if !resource.definition.custom => Ok(()),
            "application/apply-patch+yaml" | "application/apply-patch+cbor" => {
                Err(Status::unsupported_media_type(
                    "this server does not implement server-side apply: send application/merge-patch+json, or use kubectl apply without --server-side",
                ))
            }
            _ => Err(Status::unsupported_media_type(
                "accepted media types include: application/json-patch+json, application/merge-patch+json",
            )),
        }
    }

    /// Reads a patch whose type [`Self::check_type`] has accepted.
    pub(crate) fn read(media_type: &str, body: Value) -> Result<Self, Status> {
        if media_type == "application/json-patch+json" {
            return json_patch::read(body).map(Self::Json);
        }
        if !body.is_object() {
            return Err(Status::bad_request("error decoding patch: it must be a JSON object"));
        }
        Ok(match media_type {
            "application/strategic-merge-patch+json" => Self::Strategic(body),
            _ => Self::Merge(body),
        })
    }

    fn apply(&self, mut object: Value) -> Result<Value, Status> {
        match self {
            Self::Json(operations) => json_patch::apply(&mut object, operations)?,
            Self::Merge(patch) => ::json_patch::merge(&mut object, patch),
            Self::Strategic(patch) => strategic::merge(&mut object, patch),
        }
        Ok(object)
    }
}

/// Patches an object, or its status. As in kube-apiserver, the answer is 404 for a missing object, 409 when the patch
/// itself contains another resourceVersion than the object's, and 422 when the patch does not fit the object.
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
    let (object, warnings) = admit::read(&resource, patched, strictness).map_err(unfit)?;
    target.check_identity(&object)?;
    update::replace(batch, &resource, target.subresource, &key, &stored, object, warnings)
}

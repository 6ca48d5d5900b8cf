use super::{FieldValidation, Resource, Target, admit, strategic, update};
use crate::object::{self, DEEPEST, Object};
use crate::request::BODY_LIMIT;
use crate::status::{Cause, Status};
use crate::store::{Batch, Outcome};
use json_patch::PatchOperation;
use serde_json::{Value, json};

/// Operations of one JSON patch (apiserver `maxJSONPatchOperations`).
const OPERATIONS: usize = 10_000;

/// A change to an object, by the media type that it came as.
#[derive(Debug, Clone)]
pub(crate) enum Patch {
    Json(json_patch::Patch),
    Merge(Value),
    /// What kubectl sends for kinds that it knows; only built-in kinds take it.
    Strategic(Value),
    /// None; an object that is not there is told of first.
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
            _ => Err(Status::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, \
                 application/strategic-merge-patch+json, application/apply-patch+yaml",
            )),
        }
    }

    /// A patch of a type that has been checked.
    pub(crate) fn read(media_type: &str, body: Value) -> Self {
        let read = match media_type {
            "application/json-patch+json" => Self::read_json(body),
            "application/strategic-merge-patch+json" => Self::read_map(body).map(Self::Strategic),
            _ => Self::read_map(body).map(Self::Merge),
        };
        read.unwrap_or_else(Self::Broken)
    }

    fn read_json(body: Value) -> Result<Self, Status> {
        let count = body.as_array().map_or(0, Vec::len);
        if count > OPERATIONS {
            let message = format!(
                "The allowed maximum operations in a JSON patch is {OPERATIONS}, got {count}"
            );
            return Err(Status::new(413, "RequestEntityTooLarge", message));
        }
        let patch = serde_json::from_value(body)
            .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
        Ok(Self::Json(patch))
    }

    fn read_map(body: Value) -> Result<Value, Status> {
        if body.is_object() {
            Ok(body)
        } else {
            Err(Status::bad_request("error decoding patch: it must be a JSON object"))
        }
    }

    fn apply(&self, mut object: Value) -> Result<Value, Status> {
        match self {
            Self::Json(patch) => apply_operations(&mut object, &patch.0)?,
            Self::Merge(patch) => json_patch::merge(&mut object, patch),
            Self::Broken(status) => return Err(status.clone()),
            Self::Strategic(patch) => strategic::merge(&mut object, patch),
        }
        Ok(object)
    }
}

/// Applies the operations in order. What `copy` may add up to is bounded, and how deep a value may come to lie: a few
/// hundred bytes of patch could otherwise ask for any amount of memory.
fn apply_operations(object: &mut Value, operations: &[PatchOperation]) -> Result<(), Status> {
    let mut copied = 0;
    for (index, operation) in operations.iter().enumerate() {
        let (from, value) = match operation {
            PatchOperation::Add(add) => (None, Some(&add.value)),
            PatchOperation::Replace(replace) => (None, Some(&replace.value)),
            PatchOperation::Copy(copy) => (Some(&copy.from), object.pointer(copy.from.as_str())),
            PatchOperation::Move(moved) => (None, object.pointer(moved.from.as_str())),
            PatchOperation::Remove(_) | PatchOperation::Test(_) => (None, None),
        };
        if let (Some(_), Some(value)) = (from, value) {
            copied += value.to_string().len();
        }
        let below = value.map_or(0, |value| object::depth(value, DEEPEST + 1));
        if copied > BODY_LIMIT || operation.path().count() + below > DEEPEST {
            return Err(Status::too_large(BODY_LIMIT));
        }
        json_patch::patch(object, std::slice::from_ref(operation)).map_err(|error| {
            Status::unprocessable(format!(
                "the server rejected our request due to an error in our request: operation {index}: {}",
                error.kind
            ))
        })?;
    }
    Ok(())
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
    let shown = patched.clone();
    let incoming = admit::read(&resource, patched)
        .map_err(|status| in_patch(&resource, name, &shown, &status.message))?;
    let refusal = format!(
        "strict decoding error: {}",
        incoming
            .unknown
            .iter()
            .map(|field| format!("unknown field \"{field}\""))
            .collect::<Vec<_>>()
            .join(", ")
    );
    let (object, warnings) = incoming
        .accept(&resource, strictness)
        .map_err(|_| in_patch(&resource, name, &shown, &refusal))?;
    check_identity(&resource, &object, &current)?;
    update::check_revision(definition, &stored, &object)
        .map_err(|status| status.warning(&warnings))?;
    update::replace(batch, &resource, target.subresource, &key, &stored, object, warnings)
}

fn in_patch(resource: &Resource, name: &str, patched: &Value, problem: &str) -> Status {
    let definition = &resource.definition;
    Status::invalid(
        &definition.group,
        &definition.kind,
        name,
        &[Cause::invalid("patch", patched, problem)],
    )
}

fn check_identity(resource: &Resource, object: &Object, current: &Object) -> Result<(), Status> {
    let definition = &resource.definition;
    let mut causes = Vec::new();
    if object.name() != current.name() {
        causes.push(Cause::invalid("metadata.name", &json!(object.name()), "field is immutable"));
    }
    if definition.namespaced && object.namespace() != current.namespace() {
        causes.push(Cause::invalid(
            "metadata.namespace",
            &json!(object.namespace()),
            "field is immutable",
        ));
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid(&definition.group, &definition.kind, current.name(), &causes))
    }
}

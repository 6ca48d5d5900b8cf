//! Decodes and validates objects that a client writes.

use super::{FieldValidation, Subresource, strategy};
use crate::admission::{Change, Operation};
use crate::metadata;
use crate::object::Object;
use crate::registry::{Definition, Resource, Version};
use crate::schema::Part;
use crate::status::{Cause, Status};
use crate::store::Batch;
use crate::value::{self, DEEPEST};
use serde_json::{Map, Value, json};

/// Members of `ObjectMeta`; any other member of `metadata` is unknown.
const METADATA: &str = "\
    annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation \
    labels managedFields name namespace ownerReferences resourceVersion selfLink uid";

/// Reads an object of the resource's type, prunes it, fills in defaults, and converts it to storage form. Refuses
/// unknown fields, or returns warnings about them.
pub(crate) fn read(
    resource: &Resource,
    value: Value,
    strictness: FieldValidation,
) -> Result<(Object, Vec<String>), Status> {
    let version = resource.version();
    if value::depth(&value, DEEPEST + 1) > DEEPEST {
        return Err(Status::bad_request(format!(
            "the object is nested more than {DEEPEST} levels deep"
        )));
    }
    let value = with_type(resource, value)?;
    let mut unknown = unknown_metadata(&value);
    let mut object =
        Object::from_value(value).map_err(|status| unreadable(resource, &status.message))?;
    check_type(&resource.definition, version, &object)?;
    version.schema.prune(&mut object.body, &mut unknown);
    version.schema.fill(&mut object.body);
    if !resource.definition.custom {
        // kube-apiserver decodes built-in kinds into Go structs, and refuses a value that does not have its field's
        // type.
        let fault = version.schema.first_type_fault(&object.body);
        fault.map_or(Ok(()), |why| Err(unreadable(resource, &why)))?;
    }
    version.to_storage(&resource.definition, &mut object);
    object.meta.managed_fields = None;
    object.meta.self_link = None;
    object.drop_empty_metadata();
    let unknown: Vec<String> =
        unknown.iter().map(|field| format!("unknown field \"{field}\"")).collect();
    match strictness {
        FieldValidation::Strict if !unknown.is_empty() => {
            Err(unreadable(resource, &format!("strict decoding error: {}", unknown.join(", "))))
        }
        FieldValidation::Warn => Ok((object, unknown)),
        FieldValidation::Strict | FieldValidation::Ignore => Ok((object, Vec::new())),
    }
}

fn unknown_metadata(value: &Value) -> Vec<String> {
    let members = value.get("metadata").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    members
        .filter(|name| !METADATA.split(' ').any(|known| known == *name))
        .map(|name| format!("metadata.{name}"))
        .collect()
}

/// Builds the refusal of a body that is not an object of the resource's kind.
fn unrecognized(resource: &Resource, why: &str) -> Status {
    let kind = &resource.definition.kind;
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why}"
    ))
}

/// Builds the refusal of an object in which a field has the wrong type.
fn unreadable(resource: &Resource, why: &str) -> Status {
    let (kind, version) = (&resource.definition.kind, &resource.version().name);
    Status::bad_request(format!(
        "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
    ))
}

/// Adds `apiVersion` and `kind` to an object of a built-in kind that lacks them, because the path of the request
/// names both.
fn with_type(resource: &Resource, mut value: Value) -> Result<Value, Status> {
    let Some(map) = value.as_object_mut() else {
        let found = value::type_name(&value);
        return Err(unrecognized(resource, &format!("it must be an object, not {found}")));
    };
    let (kind, version) = (&resource.definition.kind, resource.version().api_version());
    for (field, expected) in [("kind", kind), ("apiVersion", &version)] {
        let present = map.get(field).filter(|value| !value.is_null() && **value != "");
        if present.is_none() && resource.definition.custom {
            return Err(unrecognized(resource, &format!("{field} is missing")));
        } else if present.is_none() {
            map.insert(field.to_owned(), Value::from(expected.as_str()));
        }
    }
    Ok(value)
}

/// Answers 400 for an object of another version and, if the resource's kind is built in, for an object of another kind.
/// Validation checks the kind of a custom resource later.
fn check_type(definition: &Definition, version: &Version, object: &Object) -> Result<(), Status> {
    let expected = version.api_version();
    if object.api_version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({expected})",
            object.api_version
        )));
    }
    if object.kind != definition.kind && !definition.custom {
        let (kind, wanted) = (&object.kind, &definition.kind);
        return Err(Status::bad_request(format!("the object is a {kind}, not a {wanted}")));
    }
    Ok(())
}

/// Validates an object: its metadata, its schema, and the rules of its built-in kind. `old` is the stored object before
/// the update. Does not report a fault that `old` already has, so that clients can still remove the finalizers of an
/// object that became invalid when its CRD changed.
pub(crate) fn check(
    resource: &Resource,
    part: Part,
    object: &Object,
    old: Option<&Object>,
) -> Result<(), Status> {
    let definition = &resource.definition;
    check_kind(resource, object)?;
    let mut causes = all_causes(resource, part, object, old);
    if let Some(old) = old
        && !causes.is_empty()
    {
        let known = all_causes(resource, part, old, Some(old));
        causes.retain(|cause| !known.contains(cause));
    }
    if let Some(old) = old {
        check_new_finalizers(object, old, &mut causes);
        causes.extend(check_deletion(object, old));
        causes.extend(strategy::check_change(definition, object, old));
    }
    if causes.is_empty() { Ok(()) } else { Err(definition.invalid(object.name(), &causes)) }
}

pub(crate) fn check_kind(resource: &Resource, object: &Object) -> Result<(), Status> {
    let definition = &resource.definition;
    if object.kind != definition.kind {
        let why = format!("must be {}", definition.kind);
        let cause = Cause::invalid("kind", &json!(object.kind), why);
        return Err(Status::invalid(&definition.group, &object.kind, object.name(), &[cause]));
    }
    Ok(())
}

fn all_causes(
    resource: &Resource,
    part: Part,
    object: &Object,
    old: Option<&Object>,
) -> Vec<Cause> {
    let definition = &resource.definition;
    let mut causes = metadata::check(definition, object);
    // Uses the schema of the version in the request, which may differ from the schema of the stored version.
    let version = resource.version();
    let shown = |object: &Object| {
        let mut object = object.clone();
        version.show(definition, &mut object);
        Version::view(&object)
    };
    version.schema.validate(part, &shown(object), old.map(shown).as_ref(), &mut causes);
    causes.extend(strategy::check(definition, object));
    causes
}

/// Calls the admission function that completes a new object.
pub(super) fn complete(
    batch: &Batch<'_>,
    resource: &Resource,
    object: Object,
) -> Result<Object, Status> {
    if !batch.admission().has_complete_function() {
        return Ok(object);
    }
    let new = version_value(resource, &object);
    let change = change(batch, resource, None, Operation::Create, (None, Some(&new)));
    match batch.admission().complete(change) {
        Some(completed) => {
            let (mut read, _) = read(resource, completed, FieldValidation::Ignore)?;
            read.meta = object.meta;
            Ok(read)
        }
        None => Ok(object),
    }
}

/// Calls the admission function; fails when it refuses the change.
pub(super) fn call_admission(
    batch: &Batch<'_>,
    resource: &Resource,
    subresource: Option<Subresource>,
    operation: Operation,
    (old, new): (Option<&Object>, Option<&Object>),
) -> Result<(), Status> {
    if !batch.admission().has_admit_function() {
        return Ok(());
    }
    let value = |object| version_value(resource, object);
    let (old, new) = (old.map(value), new.map(value));
    let objects = (old.as_ref(), new.as_ref());
    batch.admission().admit(change(batch, resource, subresource, operation, objects))
}

/// Returns an object in the version of the request.
fn version_value(resource: &Resource, object: &Object) -> Value {
    let mut object = object.clone();
    resource.version().show(&resource.definition, &mut object);
    object.to_value()
}

fn change<'a>(
    batch: &'a Batch<'_>,
    resource: &'a Resource,
    subresource: Option<Subresource>,
    operation: Operation,
    (old, new): (Option<&'a Value>, Option<&'a Value>),
) -> Change<'a> {
    let version = resource.version();
    Change {
        operation,
        user: batch.user(),
        group: &version.group,
        version: &version.name,
        resource: &resource.definition.plural,
        subresource: subresource.map(|_| "status"),
        old,
        new,
    }
}

/// Returns the faults of an update that sets or changes deletion fields: only a DELETE may begin
/// a deletion (apimachinery `ValidateObjectMetaAccessorUpdate`).
fn check_deletion(object: &Object, old: &Object) -> Vec<Cause> {
    let (new, old) = (&object.meta, &old.meta);
    let mut causes = Vec::new();
    if new.deletion_timestamp != old.deletion_timestamp {
        let value = json!(new.deletion_timestamp);
        causes.push(Cause::invalid("metadata.deletionTimestamp", &value, "field is immutable"));
    }
    if new.deletion_grace_period_seconds != old.deletion_grace_period_seconds {
        let value = json!(new.deletion_grace_period_seconds);
        let field = "metadata.deletionGracePeriodSeconds";
        causes.push(Cause::invalid(field, &value, "field is immutable"));
    }
    causes
}

fn check_new_finalizers(object: &Object, old: &Object, causes: &mut Vec<Cause>) {
    if !old.is_deleting() {
        return;
    }
    let new: Vec<&String> =
        object.finalizers().iter().filter(|finalizer| !old.has_finalizer(finalizer)).collect();
    if !new.is_empty() {
        let new = new.iter().map(|name| json!(name).to_string()).collect::<Vec<_>>().join(", ");
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{new}}}"
        );
        causes.push(Cause::forbidden("metadata.finalizers", detail));
    }
}

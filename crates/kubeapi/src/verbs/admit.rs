//! The gate of every write: from what a client sent to what may be stored.

use super::{FieldValidation, Resource, strategy};
use crate::metadata;
use crate::object::{self, DEEPEST, Object};
use crate::registry::{Definition, Version, builtin};
use crate::schema::Part;
use crate::status::{Cause, Status};
use serde_json::{Map, Value, json};

/// Members of `ObjectMeta`; anything else in `metadata` is unknown.
const METADATA: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// A client's object in storage form, pruned and defaulted, and the fields that were not known.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) object: Object,
    pub(crate) unknown: Vec<String>,
}

/// Reads an object of the resource's type.
///
/// # Errors
/// 400 when it is of another type or cannot be read.
pub(crate) fn read(resource: &Resource, value: Value) -> Result<Incoming, Status> {
    let version = resource.version();
    if object::depth(&value, DEEPEST + 1) > DEEPEST {
        return Err(Status::bad_request(format!(
            "the object is nested more than {DEEPEST} levels deep"
        )));
    }
    let value = with_type(resource, value)?;
    let mut unknown = unknown_metadata(&value);
    let mut object =
        Object::from_value(value).map_err(|status| unreadable(resource, &status.message))?;
    check_type(&resource.definition, version, &object)?;
    if !resource.definition.custom {
        // Go reads these into types of its own, and takes nothing that does not fit them.
        let misfit = version.schema.misfit(&object.body);
        misfit.map_or(Ok(()), |why| Err(unreadable(resource, &why)))?;
        let mut body = Value::Object(std::mem::take(&mut object.body));
        version.schema.as_go(&mut body);
        if let Value::Object(body) = body {
            object.body = body;
        }
    }
    version.schema.prune(&mut object.body, &mut unknown);
    if object.kind != resource.definition.kind {
        // What of another kind is unknown here says nothing.
        unknown.clear();
    }
    version.schema.fill(&mut object.body);
    version.to_storage(&resource.definition, &mut object);
    object.meta.managed_fields = None;
    object.meta.self_link = None;
    object.drop_empty_metadata();
    Ok(Incoming { object, unknown })
}

impl Incoming {
    /// The object, or the refusal of its unknown fields; else what to warn of.
    pub(crate) fn accept(
        self,
        resource: &Resource,
        strictness: FieldValidation,
    ) -> Result<(Object, Vec<String>), Status> {
        let unknown = self.unknown.iter().map(|field| format!("unknown field \"{field}\""));
        Ok((self.object, strictness.judge(resource, unknown.collect())?))
    }
}

fn unknown_metadata(value: &Value) -> Vec<String> {
    let members = value.get("metadata").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    members
        .filter(|name| !METADATA.contains(&name.as_str()))
        .map(|name| format!("metadata.{name}"))
        .collect()
}

/// The refusal of a body that is no object of the kind.
pub(crate) fn unrecognized(resource: &Resource, why: &str) -> Status {
    let kind = &resource.definition.kind;
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why}"
    ))
}

/// The refusal of an object of which something has another type than its kind says.
pub(crate) fn unreadable(resource: &Resource, why: &str) -> Status {
    let (kind, version) = (&resource.definition.kind, &resource.version().name);
    Status::bad_request(format!(
        "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
    ))
}

/// The object with its type; a built-in kind may leave it to the path.
fn with_type(resource: &Resource, mut value: Value) -> Result<Value, Status> {
    let no_object = |value: &Value| {
        let found = object::type_name(value);
        format!(
            "couldn't get version/kind; json parse error: the body must be an object, not {found}"
        )
    };
    let shown = value.to_string();
    if value.is_null() && resource.definition.custom {
        return Err(unrecognized(resource, "Object 'Kind' is missing in 'null'"));
    }
    if value.is_null() {
        // To Go a built-in kind without anything in it.
        value = json!({});
    }
    let Some(map) = value.as_object_mut() else {
        return Err(unrecognized(resource, &no_object(&value)));
    };
    let (kind, version) = (&resource.definition.kind, resource.version().api_version());
    for (field, expected) in [("kind", kind), ("apiVersion", &version)] {
        match map.get(field) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if text.is_empty() => {}
            Some(Value::String(_)) => continue,
            Some(other) => {
                let found = object::type_name(other);
                let why = format!(
                    "couldn't get version/kind; json parse error: {field} must be a string, not {found}"
                );
                return Err(unrecognized(resource, &why));
            }
        }
        if !resource.definition.custom {
            map.insert(field.to_owned(), Value::from(expected.as_str()));
        } else if field == "apiVersion" && map.get(field) == Some(&Value::Null) {
            return Err(Status::bad_request(format!(
                "{kind} in version \"\" cannot be handled as a {kind}: .apiVersion accessor error: <nil> is of the type <nil>, expected string"
            )));
        } else if field == "kind" {
            return Err(unrecognized(resource, &format!("Object 'Kind' is missing in '{shown}'")));
        }
    }
    Ok(value)
}

fn check_type(definition: &Definition, version: &Version, object: &Object) -> Result<(), Status> {
    let expected = version.api_version();
    if object.api_version != expected && !definition.custom {
        let (kind, found) = (&object.kind, &object.api_version);
        return Err(Status::bad_request(format!(
            "{kind} in version \"{}\" cannot be handled as a {}: no kind {kind:?} is registered for version {found:?}",
            version.name, definition.kind
        )));
    }
    if object.api_version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({expected})",
            object.api_version
        )));
    }
    if object.kind != definition.kind && !definition.custom {
        let (kind, wanted) = (&object.kind, &definition.kind);
        return Err(Status::bad_request(format!(
            "{kind} in version \"{}\" cannot be handled as a {wanted}: it is none",
            version.name
        )));
    }
    // Of a custom resource that comes out when it is validated.
    Ok(())
}

/// Checks everything that can be said about an object: metadata, schema, rules, and what its kind asks for.
/// `old` is the object that it replaces. What was already wrong with `old`, and has not changed, is let through: an object
/// that became invalid when its CRD changed can still be finalized.
///
/// # Errors
/// 422 with every cause.
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
        causes.extend(strategy::check_change(definition, object, old));
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid(&definition.group, &definition.kind, object.name(), &causes))
    }
}

/// # Errors
/// 422 for a custom resource of another kind.
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
    // Rules look at the version that the client spoke, which is the stored one in all but mixed-version clusters.
    let version = resource.version();
    let shown = |object: &Object| {
        let mut object = object.clone();
        version.show(definition, &mut object);
        Version::view(&object)
    };
    version.schema.validate(part, &shown(object), old.map(shown).as_ref(), &mut causes);
    if !definition.custom {
        // That everything has its type was seen when it was read.
        causes.retain(|cause| cause.reason != "FieldValueTypeInvalid");
    }
    let own = strategy::check(definition, &version.api_version(), object, old);
    if &*definition.id == builtin::EVENTS && !own.is_empty() {
        return own;
    }
    causes.extend(own);
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

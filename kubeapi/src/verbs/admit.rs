//! The gate of every write: from what a client sent to what may be stored.

use super::{FieldValidation, Resource, strategy};
use crate::metadata;
use crate::object::{self, DEEPEST, Object};
use crate::registry::{Definition, Version};
use crate::status::{Cause, Status};
use serde_json::{Map, Value};

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
    let mut unknown = unknown_metadata(&value);
    let mut object = Object::from_value(value)?;
    check_type(&resource.definition, version, &object)?;
    version.schema.prune(&mut object.body, &mut unknown);
    version.schema.fill(&mut object.body);
    version.to_storage(&resource.definition, &mut object);
    object.meta.managed_fields = None;
    object.meta.self_link = None;
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

fn check_type(definition: &Definition, version: &Version, object: &Object) -> Result<(), Status> {
    if object.kind.is_empty() {
        return Err(Status::bad_request("Object 'Kind' is missing in the body"));
    }
    let expected = version.api_version();
    if object.api_version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({expected})",
            object.api_version
        )));
    }
    if object.kind != definition.kind {
        return Err(Status::bad_request(format!(
            "the kind in the data ({}) does not match the expected kind ({})",
            object.kind, definition.kind
        )));
    }
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
    object: &Object,
    old: Option<&Object>,
) -> Result<(), Status> {
    let definition = &resource.definition;
    let mut causes = all_causes(resource, object, old);
    if let Some(old) = old
        && !causes.is_empty()
    {
        let known = all_causes(resource, old, Some(old));
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

fn all_causes(resource: &Resource, object: &Object, old: Option<&Object>) -> Vec<Cause> {
    let definition = &resource.definition;
    let mut causes = metadata::check(definition, object);
    // Rules look at the version that the client spoke, which is the stored one in all but mixed-version clusters.
    let version = resource.version();
    let shown = |object: &Object| {
        let mut object = object.clone();
        version.show(definition, &mut object);
        Version::view(&object)
    };
    causes.extend(version.schema.validate(&shown(object), old.map(shown).as_ref()));
    causes.extend(strategy::check(definition, object));
    causes
}

fn check_new_finalizers(object: &Object, old: &Object, causes: &mut Vec<Cause>) {
    if !old.is_deleting() {
        return;
    }
    let new: Vec<&String> =
        object.finalizers().iter().filter(|finalizer| !old.has_finalizer(finalizer)).collect();
    if !new.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers {new:?}"
        );
        causes.push(Cause::forbidden("metadata.finalizers", detail));
    }
}

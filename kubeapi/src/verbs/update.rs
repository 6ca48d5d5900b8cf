use super::{FieldValidation, Resource, Subresource, Target, admit, create, delete, strategy};
use crate::object::{Key, Object, Stored};
use crate::status::{Cause, Status};
use crate::store::{Batch, Outcome};
use serde_json::{Value, json};
use std::sync::Arc;

/// Replaces an object, or its status.
///
/// # Errors
/// 400, 404, 409 on a stale resourceVersion or another uid, 422: as kube-apiserver.
pub(crate) fn update(
    batch: &mut Batch<'_>,
    target: &Target,
    body: Value,
    strictness: FieldValidation,
) -> Result<Outcome, Status> {
    let resource = target.resolve(batch.registry())?;
    let name = target.name.as_deref().unwrap_or_default();
    let (object, warnings) = admit::read(&resource, body)?.accept(&resource, strictness)?;
    check_place(target, name, &object)?;
    let definition = &resource.definition;
    let key = target.key(definition, name);
    let Some(stored) = batch.get(&key) else {
        if definition.create_on_update && target.subresource.is_none() {
            return create::insert(batch, target, &resource, object, warnings);
        }
        return Err(Status::not_found(definition.subject(name)));
    };
    let revision = object.meta.resource_version.as_deref().filter(|revision| !revision.is_empty());
    match revision {
        None if !definition.unconditional_update => {
            let cause = Cause::invalid(
                "metadata.resourceVersion",
                &json!("0x0"),
                "must be specified for an update",
            );
            return Err(Status::invalid(&definition.group, &definition.kind, name, &[cause]));
        }
        Some(revision) if revision != stored.revision.to_string() => {
            return Err(Status::stale(definition.subject(name)));
        }
        None | Some(_) => {}
    }
    replace(batch, &resource, target.subresource, &key, &stored, object, warnings)
}

fn check_place(target: &Target, name: &str, object: &Object) -> Result<(), Status> {
    if object.name() != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({name})",
            object.name()
        )));
    }
    target.check_namespace(object)
}

/// Puts `wanted` in the place of a stored object; PUT and PATCH meet here.
pub(super) fn replace(
    batch: &mut Batch<'_>,
    resource: &Resource,
    subresource: Option<Subresource>,
    key: &Key,
    stored: &Arc<Stored>,
    wanted: Object,
    warnings: Vec<String>,
) -> Result<Outcome, Status> {
    let definition = &resource.definition;
    let old = stored.decode()?;
    check_uid(resource, &wanted, &old)?;
    let mut object = merged(resource, subresource, wanted, &old)?;
    if subresource.is_none() {
        strategy::complete(definition, &mut object)?;
    }
    // Only what differs can be wrong or worth storing.
    if object.same_content(&old) {
        return Ok(Outcome::Stored { code: 200, stored: Arc::clone(stored), warnings });
    }
    if definition.counts_generation && !object.same_spec(&old, resource.version().has_status) {
        object.meta.generation = Some(old.meta.generation.unwrap_or_default().saturating_add(1));
    }
    admit::check(resource, &object, Some(&old))?;
    let stored = delete::store_or_end(batch, definition, key, object)?;
    Ok(Outcome::Stored { code: 200, stored, warnings })
}

fn check_uid(resource: &Resource, wanted: &Object, old: &Object) -> Result<(), Status> {
    if wanted.uid().is_empty() || wanted.uid() == old.uid() {
        return Ok(());
    }
    let why = format!(
        "Precondition failed: UID in precondition: {}, UID in object meta: {}",
        wanted.uid(),
        old.uid()
    );
    Err(Status::conflict(resource.definition.subject(old.name()), &why))
}

/// The parts of `wanted` that this write may change, over the old object.
fn merged(
    resource: &Resource,
    subresource: Option<Subresource>,
    wanted: Object,
    old: &Object,
) -> Result<Object, Status> {
    match subresource {
        Some(Subresource::Status) => {
            let mut object = old.clone();
            set(&mut object, "status", wanted.body.get("status"));
            Ok(object)
        }
        Some(Subresource::Finalize) => {
            let mut object = old.clone();
            set(&mut object, "spec", wanted.body.get("spec"));
            Ok(object)
        }
        None => {
            check_immutable_metadata(resource, &wanted, old)?;
            let mut object = wanted;
            object.meta.name.clone_from(&old.meta.name);
            object.meta.namespace.clone_from(&old.meta.namespace);
            object.meta.uid.clone_from(&old.meta.uid);
            object.meta.generation = old.meta.generation;
            object.meta.creation_timestamp.clone_from(&old.meta.creation_timestamp);
            object.meta.deletion_timestamp.clone_from(&old.meta.deletion_timestamp);
            object.meta.deletion_grace_period_seconds = old.meta.deletion_grace_period_seconds;
            drop_empty(&mut object);
            if resource.version().has_status {
                set(&mut object, "status", old.body.get("status"));
            }
            Ok(object)
        }
    }
}

/// Maps and lists that are empty are the same as absent ones, in Go and so in every comparison.
fn drop_empty(object: &mut Object) {
    let meta = &mut object.meta;
    meta.labels.take_if(|labels| labels.is_empty());
    meta.annotations.take_if(|annotations| annotations.is_empty());
    meta.finalizers.take_if(|finalizers| finalizers.is_empty());
    meta.owner_references.take_if(|owners| owners.is_empty());
}

fn check_immutable_metadata(
    resource: &Resource,
    wanted: &Object,
    old: &Object,
) -> Result<(), Status> {
    let definition = &resource.definition;
    let mut causes = Vec::new();
    let times = [
        ("creationTimestamp", &wanted.meta.creation_timestamp, &old.meta.creation_timestamp),
        ("deletionTimestamp", &wanted.meta.deletion_timestamp, &old.meta.deletion_timestamp),
    ];
    for (field, wanted, old) in times {
        if wanted.is_some() && wanted != old {
            causes.push(Cause::invalid(
                format!("metadata.{field}"),
                &json!(wanted),
                "field is immutable",
            ));
        }
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid(&definition.group, &definition.kind, old.name(), &causes))
    }
}

fn set(object: &mut Object, field: &str, value: Option<&Value>) {
    match value {
        Some(value) => object.body.insert(field.to_owned(), value.clone()),
        None => object.body.remove(field),
    };
}

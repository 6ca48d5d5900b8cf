use super::{FieldValidation, Subresource, Target, admit, create, delete, strategy};
use crate::admission::Operation;
use crate::object::{Key, Object, Stored};
use crate::registry::{Definition, Resource, builtin, crd};
use crate::schema::Part;
use crate::status::{Cause, Status};
use crate::store::{Batch, Outcome};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
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
    let (object, warnings) = admit::read(&resource, body)?.accept(&resource, strictness)?;
    let result = place(batch, target, &resource, object, warnings.clone());
    result.map_err(|status| status.warning(&warnings))
}

/// Puts an object that has been read where the path says.
fn place(
    batch: &mut Batch<'_>,
    target: &Target,
    resource: &Resource,
    mut object: Object,
    warnings: Vec<String>,
) -> Result<Outcome, Status> {
    let name = target.name.as_deref().unwrap_or_default();
    check_place(target, name, &object)?;
    let definition = &resource.definition;
    let key = target.key(definition, name);
    let Some(stored) = batch.get(&key) else {
        if definition.create_on_update && target.subresource.is_none() {
            if !object.uid().is_empty() {
                return Err(other_uid(definition, &key, object.uid(), ""));
            }
            let revision = object.meta.resource_version.take().filter(|text| !text.is_empty());
            revision.as_deref().map(Status::read_revision).transpose()?;
            return create::insert(batch, target, resource, object, warnings);
        }
        return Err(Status::not_found(definition.subject(name)));
    };
    check_uid(definition, &key, &object, &stored.uid)?;
    check_revision(definition, &stored, &object)?;
    replace(batch, resource, target.subresource, &key, &stored, object, warnings)
}

/// The resourceVersion of an update must be the current one; some kinds may leave it out.
pub(super) fn check_revision(
    definition: &Definition,
    stored: &Stored,
    object: &Object,
) -> Result<(), Status> {
    let revision = object.meta.resource_version.as_deref().unwrap_or_default();
    let subject = definition.subject(object.name());
    match revision {
        "" | "0" if !definition.unconditional_update => {
            let why = "must be specified for an update";
            let cause = Cause::invalid("metadata.resourceVersion", &json!(0), why);
            // kube-apiserver names the resource here, and the kind in every other refusal.
            Err(Status::invalid(subject.group, subject.plural, subject.name, &[cause]))
        }
        "" | "0" => Ok(()),
        revision if Status::read_revision(revision)? != stored.revision => {
            Err(Status::stale(subject))
        }
        _ => Ok(()),
    }
}

fn check_place(target: &Target, name: &str, object: &Object) -> Result<(), Status> {
    check_name(object, name)?;
    target.check_namespace(object)
}

/// # Errors
/// 400 for an object without a name, or with another than the path's.
pub(super) fn check_name(object: &Object, name: &str) -> Result<(), Status> {
    if object.name().is_empty() {
        return Err(no_name(name));
    }
    if object.name() != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({name})",
            object.name()
        )));
    }
    Ok(())
}

/// The refusal of an object without a name.
pub(super) fn no_name(name: &str) -> Status {
    Status::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// Replaces a stored object by `wanted`, for PUT and PATCH.
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
    if subresource.is_none() {
        keep_uid(resource, &wanted, &old)?;
    }
    let mut object = merged(resource, subresource, wanted, &old)?;
    if subresource.is_none() || &*definition.id == builtin::NAMESPACES {
        strategy::complete(definition, &mut object, Some(&old))?;
    }
    if subresource.is_some() && &*definition.id == builtin::CRDS {
        crd::keep_stored_version(&mut object);
    }
    admit::check_kind(resource, &object)?;
    let ask = |batch: &Batch<'_>, object: &Object| {
        let objects = (Some(&old), Some(object));
        admit::ask(batch, resource, subresource, Operation::Update, objects)
    };
    // An unchanged object is neither validated nor stored again.
    if object.same_content(&old) {
        ask(batch, &object)?;
        return Ok(Outcome::Stored { code: 200, stored: Arc::clone(stored), warnings });
    }
    if definition.counts_generation && !object.same_spec(&old, resource.version().has_status) {
        object.meta.generation = Some(old.meta.generation.unwrap_or_default().saturating_add(1));
    }
    let part = match subresource {
        Some(Subresource::Status) => Part::Status,
        _ => Part::Whole,
    };
    admit::check(resource, part, &object, Some(&old))?;
    ask(batch, &object)?;
    object.canonicalise();
    let before = Object {
        meta: ObjectMeta { resource_version: old.meta.resource_version, ..object.meta.clone() },
        ..object.clone()
    };
    let mut after = delete::store_or_end(batch, definition, key, object)?;
    if batch.get(key).is_none() {
        // This write removed the last finalizer: the answer shows the revision from before.
        after = Arc::new(definition.stored(&before, stored.revision));
    }
    Ok(Outcome::Stored { code: 200, stored: after, warnings })
}

/// A patch may not give an object another uid.
fn keep_uid(resource: &Resource, wanted: &Object, old: &Object) -> Result<(), Status> {
    if wanted.uid().is_empty() || wanted.uid() == old.uid() {
        return Ok(());
    }
    let definition = &resource.definition;
    let cause = Cause::invalid("metadata.uid", &json!(wanted.uid()), "field is immutable");
    Err(Status::invalid(&definition.group, &definition.kind, old.name(), &[cause]))
}

fn check_uid(definition: &Definition, key: &Key, wanted: &Object, uid: &str) -> Result<(), Status> {
    if wanted.uid().is_empty() || wanted.uid() == uid {
        return Ok(());
    }
    Err(other_uid(definition, key, wanted.uid(), uid))
}

fn other_uid(definition: &Definition, key: &Key, wanted: &str, uid: &str) -> Status {
    let why =
        format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
    Status::conflict(definition.subject(&key.name), &why)
}

/// The old object with those parts of `wanted` that this request may change.
fn merged(
    resource: &Resource,
    subresource: Option<Subresource>,
    wanted: Object,
    old: &Object,
) -> Result<Object, Status> {
    match subresource {
        // A status update of a namespace also writes its metadata, as in kube-apiserver.
        Some(Subresource::Status) if &*resource.definition.id == builtin::NAMESPACES => {
            let mut object = merged(resource, None, wanted.clone(), old)?;
            set(&mut object, "status", wanted.body.get("status"));
            set(&mut object, "spec", old.body.get("spec"));
            Ok(object)
        }
        Some(Subresource::Status) => {
            let mut object = old.clone();
            set(&mut object, "status", wanted.body.get("status"));
            Ok(object)
        }
        Some(Subresource::Finalize | Subresource::Unknown) => {
            let mut object = old.clone();
            set(&mut object, "spec", wanted.body.get("spec"));
            Ok(object)
        }
        None => {
            let mut object = wanted;
            object.meta.name.clone_from(&old.meta.name);
            object.meta.namespace.clone_from(&old.meta.namespace);
            object.meta.uid.clone_from(&old.meta.uid);
            object.meta.generation = old.meta.generation;
            object.meta.creation_timestamp.clone_from(&old.meta.creation_timestamp);
            check_deletion(resource, &object, old)?;
            object.meta.deletion_timestamp.clone_from(&old.meta.deletion_timestamp);
            object.meta.deletion_grace_period_seconds = old.meta.deletion_grace_period_seconds;
            if resource.version().has_status {
                set(&mut object, "status", old.body.get("status"));
            }
            if &*resource.definition.id == builtin::NAMESPACES {
                set(&mut object, "spec", old.body.get("spec"));
            }
            Ok(object)
        }
    }
}

/// An update can neither begin nor change a deletion.
fn check_deletion(resource: &Resource, wanted: &Object, old: &Object) -> Result<(), Status> {
    let (new, old_meta) = (&wanted.meta, &old.meta);
    let mut causes = Vec::new();
    let mut immutable = |field: &str, value: Value| {
        let field = format!("metadata.{field}");
        causes.push(Cause::invalid(field, &value, "field is immutable"));
    };
    if new.deletion_timestamp.is_some() && new.deletion_timestamp != old_meta.deletion_timestamp {
        immutable("deletionTimestamp", json!(new.deletion_timestamp));
    }
    let grace = new.deletion_grace_period_seconds;
    if grace.is_some() && grace != old_meta.deletion_grace_period_seconds {
        immutable("deletionGracePeriodSeconds", json!(grace));
    }
    if causes.is_empty() {
        return Ok(());
    }
    let definition = &resource.definition;
    Err(Status::invalid(&definition.group, &definition.kind, old.name(), &causes))
}

fn set(object: &mut Object, field: &str, value: Option<&Value>) {
    match value {
        Some(value) => object.body.insert(field.to_owned(), value.clone()),
        None => object.body.remove(field),
    };
}

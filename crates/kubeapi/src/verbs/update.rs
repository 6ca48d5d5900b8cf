use super::{FieldValidation, Subresource, Target, admit, delete, strategy};
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
pub(crate) fn update(
    batch: &mut Batch<'_>,
    target: &Target,
    body: Value,
    strictness: FieldValidation,
) -> Result<Outcome, Status> {
    let resource = target.resolve(batch.registry())?;
    let (object, warnings) = admit::read(&resource, body, strictness)?;
    let name = target.name.as_deref().unwrap_or_default();
    target.check_identity(&object)?;
    let definition = &resource.definition;
    let key = target.key(definition, name);
    let stored = batch.get(&key).ok_or_else(|| Status::not_found(definition.subject(name)))?;
    replace(batch, &resource, target.subresource, &key, &stored, object, warnings)
}

/// Compares an update with the stored object. Returns 409 if the update names another resourceVersion or another
/// uid than the stored object has, and 422 if it names no resourceVersion and its kind requires one.
fn check_preconditions(
    definition: &Definition,
    stored: &Stored,
    object: &Object,
) -> Result<(), Status> {
    let subject = definition.subject(object.name());
    let (revision, uid) = (object.meta.resource_version.as_deref(), object.uid());
    if !uid.is_empty() && uid != stored.uid {
        let stored_uid = &stored.uid;
        let why =
            format!("Precondition failed: UID in precondition: {uid}, in the object: {stored_uid}");
        return Err(Status::conflict(subject, &why));
    }
    match revision.unwrap_or_default() {
        "" | "0" if !definition.unconditional_update => {
            let why = "must be specified for an update";
            let cause = Cause::invalid("metadata.resourceVersion", &json!(0), why);
            Err(definition.invalid(object.name(), &[cause]))
        }
        "" | "0" => Ok(()),
        revision if Status::read_revision(revision)? != stored.revision => {
            Err(Status::stale(subject))
        }
        _ => Ok(()),
    }
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
    check_preconditions(definition, stored, &wanted)?;
    let old = stored.decode()?;
    let mut object = merge_writable_parts(resource, subresource, wanted, &old);
    if subresource.is_none() || &*definition.id == builtin::NAMESPACES {
        strategy::complete(definition, &mut object, Some(&old))?;
    }
    if subresource.is_some() && &*definition.id == builtin::CRDS {
        crd::keep_stored_version(&mut object);
    }
    admit::check_kind(resource, &object)?;
    let ask = |batch: &Batch<'_>, object: &Object| {
        let objects = (Some(&old), Some(object));
        admit::call_admission(batch, resource, subresource, Operation::Update, objects)
    };
    // An unchanged object is neither validated nor stored again.
    if object.same_content(&old) {
        ask(batch, &object)?;
        return Ok(Outcome::Stored { code: 200, stored: Arc::clone(stored), warnings });
    }
    if definition.counts_generation && !object.same_spec(&old, resource.version().has_status) {
        object.meta.generation = Some(old.meta.generation.unwrap_or_default().saturating_add(1));
    }
    let part = if subresource.is_some() { Part::Status } else { Part::Whole };
    admit::check(resource, part, &object, Some(&old))?;
    ask(batch, &object)?;
    object.canonicalise();
    let after = delete::store_or_remove(batch, definition, key, object)?;
    Ok(Outcome::Stored { code: 200, stored: after, warnings })
}

/// Returns the old object with the parts of `wanted` that this request may change.
fn merge_writable_parts(
    resource: &Resource,
    subresource: Option<Subresource>,
    wanted: Object,
    old: &Object,
) -> Object {
    if subresource.is_some() {
        let mut object = old.clone();
        set(&mut object, "status", wanted.body.get("status"));
        return object;
    }
    let mut object = wanted;
    object.meta = ObjectMeta {
        // An update cannot begin a deletion or change its grace period; `admit::check` refuses the attempt.
        deletion_timestamp: old.meta.deletion_timestamp.clone().or(object.meta.deletion_timestamp),
        deletion_grace_period_seconds: object
            .meta
            .deletion_grace_period_seconds
            .or(old.meta.deletion_grace_period_seconds),
        generate_name: object.meta.generate_name,
        labels: object.meta.labels,
        annotations: object.meta.annotations,
        finalizers: object.meta.finalizers,
        owner_references: object.meta.owner_references,
        ..old.meta.clone()
    };
    if resource.version().has_status {
        set(&mut object, "status", old.body.get("status"));
    }
    if &*resource.definition.id == builtin::NAMESPACES {
        set(&mut object, "spec", old.body.get("spec"));
    }
    object
}

fn set(object: &mut Object, field: &str, value: Option<&Value>) {
    match value {
        Some(value) => object.body.insert(field.to_owned(), value.clone()),
        None => object.body.remove(field),
    };
}

//! The rules for metadata (apimachinery `ValidateObjectMeta`).

use crate::names;
use crate::object::{FOREGROUND, ORPHAN, Object};
use crate::registry::{Definition, builtin};
use crate::status::Cause;
use serde_json::json;

/// Largest total of an object's annotations, in bytes (apimachinery `TotalAnnotationSizeLimitB`).
const ANNOTATIONS_LIMIT: u64 = 256 * 1024;

/// Finalizers that are valid without a domain.
const STANDARD: [&str; 3] = [FOREGROUND, ORPHAN, "kubernetes"];

/// Returns the faults in the metadata of a new or updated object.
pub(crate) fn check(definition: &Definition, object: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = object.name();
    if let Some(prefix) = object.meta.generate_name.as_deref().filter(|prefix| !prefix.is_empty()) {
        // A prefix may end in a dash, because the generated part follows.
        if let Some(why) = definition.check_name(prefix.strip_suffix('-').unwrap_or(prefix)) {
            causes.push(Cause::invalid("metadata.generateName", &json!(prefix), why));
        }
    }
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else if let Some(why) = definition.check_name(name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), why));
    }
    for (key, value) in object.meta.labels.iter().flatten() {
        if let Some(why) = names::qualified_name(key) {
            causes.push(Cause::invalid("metadata.labels", &json!(key), why));
        }
        if let Some(why) = names::label_value(value) {
            causes.push(Cause::invalid("metadata.labels", &json!(value), why));
        }
    }
    check_annotations(object, &mut causes);
    check_owners(object, &mut causes);
    check_finalizers(definition, object, &mut causes);
    causes
}

fn check_annotations(object: &Object, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for (key, value) in object.meta.annotations.iter().flatten() {
        size += (key.len() + value.len()) as u64;
        // Keys of annotations are compared in lower case, as kube-apiserver does.
        if let Some(why) = names::qualified_name(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &json!(key), why));
        }
    }
    if size > ANNOTATIONS_LIMIT {
        causes.push(Cause::too_long("metadata.annotations", ANNOTATIONS_LIMIT));
    }
}

fn check_owners(object: &Object, causes: &mut Vec<Cause>) {
    let owners = object.meta.owner_references.as_deref().unwrap_or_default();
    for owner in owners {
        let version = match owner.api_version.split('/').collect::<Vec<_>>().as_slice() {
            [version] | [_, version] => *version,
            _ => "",
        };
        let fields = [
            ("apiVersion", version),
            ("kind", &owner.kind),
            ("name", &owner.name),
            ("uid", &owner.uid),
        ];
        for (field, _) in fields.into_iter().filter(|(_, value)| value.is_empty()) {
            let field = format!("metadata.ownerReferences.{field}");
            causes.push(Cause::invalid(field, &json!(""), "must not be empty"));
        }
    }
    let controllers = owners.iter().filter(|owner| owner.controller == Some(true));
    for owner in controllers.skip(1) {
        let why = "only one owner may be the controller";
        causes.push(Cause::invalid("metadata.ownerReferences", &json!(owner), why));
    }
}

fn check_finalizers(definition: &Definition, object: &Object, causes: &mut Vec<Cause>) {
    let finalizers = object.finalizers();
    for finalizer in finalizers {
        if let Some(why) = names::qualified_name(finalizer) {
            causes.push(Cause::invalid("metadata.finalizers", &json!(finalizer), why));
        }
    }
    let is_core = definition.group.is_empty() && &*definition.id != builtin::EVENTS;
    for (index, finalizer) in finalizers.iter().enumerate().filter(|_| is_core) {
        if !finalizer.contains('/') && !STANDARD.contains(&finalizer.as_str()) {
            let field = format!("metadata.finalizers[{index}]");
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(field, &json!(finalizer), why));
        }
    }
    if object.has_finalizer(FOREGROUND) && object.has_finalizer(ORPHAN) {
        let why = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        causes.push(Cause::invalid("metadata.finalizers", &json!(finalizers), why));
    }
}

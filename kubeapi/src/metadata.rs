//! The rules for metadata (apimachinery `ValidateObjectMeta`).

use crate::names;
use crate::object::Object;
use crate::registry::Definition;
use crate::status::Cause;
use serde_json::json;

/// Annotations of one object together (apimachinery `TotalAnnotationSizeLimitB`).
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Checks the metadata of a new object, or what an update made of it.
pub(crate) fn check(definition: &Definition, object: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = object.name();
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else if let Err(why) = definition.check_name(name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), why));
    }
    for (key, value) in object.meta.labels.iter().flatten() {
        if let Err(why) = names::qualified_name(key) {
            causes.push(Cause::invalid("metadata.labels", &json!(key), why));
        }
        if let Err(why) = names::label_value(value) {
            causes.push(Cause::invalid("metadata.labels", &json!(value), why));
        }
    }
    check_annotations(object, &mut causes);
    for finalizer in object.finalizers() {
        if let Err(why) = names::qualified_name(finalizer) {
            causes.push(Cause::invalid("metadata.finalizers", &json!(finalizer), why));
        }
    }
    check_owners(object, &mut causes);
    causes
}

fn check_annotations(object: &Object, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for (key, value) in object.meta.annotations.iter().flatten() {
        size += key.len() + value.len();
        // Keys of annotations are compared in lower case, as kube-apiserver does.
        if let Err(why) = names::qualified_name(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &json!(key), why));
        }
    }
    if size > ANNOTATIONS_LIMIT {
        causes.push(Cause::too_long("metadata.annotations", ANNOTATIONS_LIMIT));
    }
}

fn check_owners(object: &Object, causes: &mut Vec<Cause>) {
    let mut controllers = 0;
    for (index, owner) in object.meta.owner_references.iter().flatten().enumerate() {
        for (field, value) in [
            ("apiVersion", &owner.api_version),
            ("kind", &owner.kind),
            ("name", &owner.name),
            ("uid", &owner.uid),
        ] {
            if value.is_empty() {
                causes.push(Cause::invalid(
                    format!("metadata.ownerReferences[{index}].{field}"),
                    &json!(value),
                    "must not be empty",
                ));
            }
        }
        controllers += u32::from(owner.controller == Some(true));
    }
    if controllers > 1 {
        let detail = "Only one reference can have Controller set to true";
        causes.push(Cause::invalid("metadata.ownerReferences", &json!(controllers), detail));
    }
}

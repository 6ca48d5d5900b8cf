//! OpenAPI schemas that differ from those that schemars derives from the Rust type.

use k8s_openapi::api::core::v1::ObjectReference;
use schemars::{Schema, SchemaGenerator, json_schema};

/// Schema of Go's `int`: an integer without a format.
pub(crate) fn int(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer" })
}

/// Schema of a list of Go's `int`.
pub(crate) fn ints(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": int(generator) })
}

/// Schema of Go's `uint32`, which upstream calls `int32`. Fields are decoded as `i64`, so that any
/// stored value is readable.
pub(crate) fn int32(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int32" })
}

/// Schema of a `Time` of the Kubernetes API.
pub(crate) fn date_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// Schema of a list of references, each of which server-side apply replaces as a whole.
pub(crate) fn references(generator: &mut SchemaGenerator) -> Schema {
    let mut reference = generator.subschema_for::<ObjectReference>();
    reference.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    json_schema!({ "type": "array", "items": reference })
}

/// Schema of an object whose fields the API server does not check here: Kubernetes checks them when the pod is created.
pub(crate) fn object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Schema of a list of [`object`]s.
pub(crate) fn objects(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": object(generator) })
}

/// Makes the field `ready` of a status required.
pub(crate) fn require_ready(status: &mut Schema) {
    require(status, &["ready"]);
}

/// Makes `fields` required although decoding accepts objects without them: upstream's schema has a default for these
/// fields and requires them as well.
pub(crate) fn require(schema: &mut Schema, fields: &[&str]) {
    let required =
        schema.ensure_object().entry("required").or_insert_with(|| serde_json::json!([]));
    if let Some(required) = required.as_array_mut() {
        required.extend(fields.iter().map(|field| serde_json::Value::from(*field)));
    }
}

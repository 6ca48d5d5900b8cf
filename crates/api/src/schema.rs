//! Pieces of OpenAPI schema that differ from what a Rust type says by itself.

use k8s_openapi::api::core::v1::ObjectReference;
use schemars::{Schema, SchemaGenerator, json_schema};

/// Go's `int`: an integer without a format.
pub(crate) fn int(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer" })
}

/// A list of those.
pub(crate) fn ints(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": int(generator) })
}

/// Go's `uint32`, which upstream's schema calls `int32`. Decoded wider, so that no stored value is unreadable.
pub(crate) fn int32(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int32" })
}

/// A `Time` of the Kubernetes API.
pub(crate) fn date_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// A list of references, each of which server-side apply replaces whole.
pub(crate) fn references(generator: &mut SchemaGenerator) -> Schema {
    let mut reference = generator.subschema_for::<ObjectReference>();
    reference.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    json_schema!({ "type": "array", "items": reference })
}

/// An object whose fields somebody else checks.
pub(crate) fn object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A list of such objects.
pub(crate) fn objects(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": object(generator) })
}

/// A status whose `ready` is required.
pub(crate) fn require_ready(status: &mut Schema) {
    require(status, &["ready"]);
}

/// Makes `fields` required although decoding tolerates their absence, because upstream's schema defaults *and* requires them.
pub(crate) fn require(schema: &mut Schema, fields: &[&str]) {
    let required =
        schema.ensure_object().entry("required").or_insert_with(|| serde_json::json!([]));
    if let Some(required) = required.as_array_mut() {
        required.extend(fields.iter().map(|field| serde_json::Value::from(*field)));
    }
}

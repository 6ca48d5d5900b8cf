//! The few messages of gnostic's `openapi.v2` that a document of ours needs (OpenAPIv2/OpenAPIv2.proto), encoded by hand:
//! field numbers are the only thing to know.

use serde_json::{Map, Value};

/// Encodes a document: swagger 1, info 2, paths 8, definitions 9.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, text(document, "swagger"));
    let mut info = Message::default();
    info.text(1, text(&document["info"], "title"));
    info.text(2, text(&document["info"], "version"));
    out.message(2, &info);
    out.message(8, &paths(document["paths"].as_object()));
    out.message(9, &named_schemas(document["definitions"].as_object()));
    out.0
}

#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        loop {
            let low = value.to_le_bytes()[0] & 0x7f;
            value >>= 7;
            if value == 0 {
                self.0.push(low);
                return;
            }
            self.0.push(low | 0x80);
        }
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        const LENGTH_DELIMITED: u64 = 2;
        self.varint(field << 3 | LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, field: u64, text: &str) {
        if !text.is_empty() {
            self.bytes(field, text.as_bytes());
        }
    }

    fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }
}

/// `Definitions` and `Properties` have the same shape: repeated `NamedSchema` (name 1, value 2).
fn named_schemas(schemas: Option<&Map<String, Value>>) -> Message {
    let mut all = Message::default();
    for (name, value) in schemas.into_iter().flatten() {
        let mut named = Message::default();
        named.text(1, name);
        named.message(2, &schema(value));
        all.message(1, &named);
    }
    all
}

/// `Schema`: $ref 1, format 2, description 4, required 19, additionalProperties 21, type 22, items 23, properties 25,
/// extensions 31.
fn schema(schema: &Value) -> Message {
    let mut out = Message::default();
    out.text(1, text(schema, "$ref"));
    out.text(2, text(schema, "format"));
    out.text(4, text(schema, "description"));
    for name in schema["required"].as_array().into_iter().flatten() {
        out.text(19, name.as_str().unwrap_or_default());
    }
    if schema["additionalProperties"].is_object() {
        out.message(21, &one(1, &self::schema(&schema["additionalProperties"])));
    }
    if let Some(kind) = schema["type"].as_str() {
        let mut item = Message::default();
        item.text(1, kind);
        out.message(22, &item);
    }
    if schema["items"].is_object() {
        out.message(23, &one(1, &self::schema(&schema["items"])));
    }
    if schema["properties"].is_object() {
        out.message(25, &named_schemas(schema["properties"].as_object()));
    }
    if let Some(extension) = kind_extension(schema) {
        out.message(31, &extension);
    }
    out
}

/// `Paths`: repeated `NamedPathItem` 2 (name 1, value 2). Of a `PathItem` there is only what old clients look up: the
/// `Operation` patch 8, with its parameters 8 and extensions 13.
fn paths(paths: Option<&Map<String, Value>>) -> Message {
    let mut all = Message::default();
    for (path, item) in paths.into_iter().flatten() {
        let mut patch = Message::default();
        for parameter in item["patch"]["parameters"].as_array().into_iter().flatten() {
            patch.message(8, &query_parameter(parameter));
        }
        if let Some(extension) = kind_extension(&item["patch"]) {
            patch.message(13, &extension);
        }
        let mut named = Message::default();
        named.text(1, path);
        named.message(2, &one(8, &patch));
        all.message(2, &named);
    }
    all
}

/// `ParametersItem` (parameter 1), `Parameter` (non-body 2), `NonBodyParameter` (of the query 3), and of that `in` 2, `name` 4
/// and `type` 6.
fn query_parameter(parameter: &Value) -> Message {
    let mut query = Message::default();
    query.text(2, text(parameter, "in"));
    query.text(4, text(parameter, "name"));
    query.text(6, text(parameter, "type"));
    one(1, &one(2, &one(3, &query)))
}

/// `NamedAny` (name 1, value 2) with an `Any` whose field 2 is YAML, of which JSON is a part.
fn kind_extension(of: &Value) -> Option<Message> {
    const KIND: &str = "x-kubernetes-group-version-kind";
    let mut any = Message::default();
    any.text(2, &of.get(KIND)?.to_string());
    let mut named = one(2, &any);
    named.text(1, KIND);
    Some(named)
}

fn one(field: u64, inner: &Message) -> Message {
    let mut outer = Message::default();
    outer.message(field, inner);
    outer
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

//! Pruning, defaulting and validation, keyword by keyword.

use super::{Part, Schema};
use crate::status::Cause;
use serde_json::{Value, json};

fn faults(schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    schema.validate(Part::Whole, value, old, &mut causes);
    causes
}

/// Returns a value as the schema prunes and defaults it, and the faults of the result.
fn admit(schema: &Value, value: &Value) -> (Value, Vec<String>) {
    let schema = Schema::compile(schema).unwrap();
    let mut body = value.as_object().unwrap().clone();
    schema.prune(&mut body, &mut Vec::new());
    schema.fill(&mut body);
    let value = Value::Object(body);
    let causes = faults(&schema, &value, None).iter().map(ToString::to_string).collect();
    (value, causes)
}

fn property(schema: &Value) -> Value {
    json!({"type": "object", "properties": {"x": schema}})
}

#[track_caller]
fn accepts(schema: &Value, value: &Value) {
    let (_, causes) = admit(&property(schema), &json!({"x": value}));
    assert!(causes.is_empty(), "{schema} refused {value}: {causes:?}");
}

#[track_caller]
fn refuses(schema: &Value, value: &Value, message: &str) {
    let (_, causes) = admit(&property(schema), &json!({"x": value}));
    assert!(causes.iter().any(|cause| cause.contains(message)), "{schema} on {value}: {causes:?}");
}

#[test]
fn strings_are_checked_against_formats_lengths_and_patterns() {
    let schema = json!({"type": "string", "pattern": "^[a-z]+$", "maxLength": 3});
    accepts(&schema, &json!("abc"));
    refuses(&schema, &json!("ab1"), "x: Invalid value: \"ab1\": x in body should match '^[a-z]+$'");
    refuses(&schema, &json!("abcd"), "x: Too long: at most 3 are allowed");
    for (format, good, bad) in
        [("date-time", "2026-01-02T03:04:05Z", "2026-01-02"), ("byte", "Zm9v", "?")]
    {
        let schema = json!({"type": "string", "format": format});
        accepts(&schema, &json!(good));
        refuses(&schema, &json!(bad), &format!("must be of type {format}"));
    }
}

#[test]
fn numbers_are_checked_against_bounds() {
    let schema = json!({"type": "integer", "format": "int32", "minimum": 1});
    accepts(&schema, &json!(2));
    refuses(&schema, &json!(0), "should be at least 1");
    refuses(&schema, &json!(1.5), "must be of type integer: \"number\"");
    refuses(&schema, &json!(4_294_967_296_u64), "should be a number that int32 can hold");
    refuses(&json!({"type": "number", "maximum": 1.5}), &json!(2), "should be at most 1.5");
    let (mut value, causes) = admit(&property(&json!({"type": "integer"})), &json!({"x": 3.0}));
    assert!(causes.is_empty(), "{causes:?}");
    crate::value::canonical(&mut value);
    assert_eq!(
        value,
        json!({"x": 3}),
        "a whole number is stored as an integer, however it was written"
    );
}

#[test]
fn arrays_are_checked_item_by_item() {
    refuses(&json!({"type": "array", "minItems": 1}), &json!([]), "should have at least 1 items");
    refuses(&json!({"type": "array", "maxItems": 1}), &json!([1, 2]), "x: Too many: 2: at most 1");
    let items = json!({"type": "array", "items": {"type": "string"}});
    refuses(&items, &json!(["a", 1]), "x[1] in body must be of type string");
}

#[test]
fn objects_are_checked_member_by_member() {
    let schema = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    accepts(&schema, &json!({"anything": 1}));
    refuses(&schema, &json!({"a": "1"}), "x.a: Invalid value: \"string\"");
    refuses(&json!({"type": "object", "required": ["a"]}), &json!({}), "x.a: Required value");
    refuses(&json!({"type": "object"}), &json!([1]), "must be of type object: \"array\"");
}

#[test]
fn int_or_string_accepts_both_types() {
    let either = json!({"x-kubernetes-int-or-string": true});
    accepts(&either, &json!("50%"));
    accepts(&either, &json!(50));
    refuses(&either, &json!(true), "must be of type integer,string");
}

#[test]
fn defaults_fill_absent_members_of_present_objects_only() {
    let inner =
        json!({"type": "object", "properties": {"deep": {"type": "integer", "default": 5}}});
    let schema = json!({"type": "object", "properties": {
        "list": {"type": "array", "items": inner}, "map": {"type": "object", "additionalProperties": inner},
        "one": inner, "nullable": {"type": "string", "nullable": true, "default": "d"},
        "null": {"type": "string", "default": "d"}, "dropped": {"type": "string"}}});
    let (value, causes) = admit(
        &schema,
        &json!({"list": [{}], "map": {"k": {}}, "nullable": null, "null": null, "dropped": null, "unknown": 1}),
    );
    assert_eq!(
        value,
        json!({"list": [{"deep": 5}], "map": {"k": {"deep": 5}}, "nullable": null, "null": "d"}),
    );
    assert!(causes.is_empty(), "{causes:?}");

    // Nulls among values of `additionalProperties`, which the schema does not name one by one.
    let texts = json!({"type": "string"});
    let numbers = json!({"type": "integer", "default": 5});
    let schema = json!({"type": "object", "properties": {
        "map": {"type": "object", "additionalProperties": texts}, "numbers": {"type": "object", "additionalProperties": numbers},
        "list": {"type": "array", "items": texts}, "counts": {"type": "array", "items": numbers}}});
    let (value, causes) = admit(
        &schema,
        &json!({"map": {"a": null, "b": "c"}, "numbers": {"a": null}, "list": ["a", null], "counts": [1, null]}),
    );
    assert_eq!(
        value,
        json!({"map": {"b": "c"}, "numbers": {"a": 5}, "list": ["a", null], "counts": [1, 5]}),
    );
    assert_eq!(causes.len(), 1, "{causes:?}");
}

#[test]
fn a_keyword_that_cannot_be_enforced_does_not_compile() {
    for (schema, message) in [
        (json!({"type": "strnig"}), "openAPIV3Schema: unknown variant `strnig`"),
        (json!({"properties": {"a": {"pattern": "("}}}), "openAPIV3Schema.properties.a: pattern: "),
        (json!({"items": {"$ref": "#/a"}}), "openAPIV3Schema.items: unknown field `$ref`"),
        (json!({"required": "a"}), "expected a sequence"),
        (json!({"minLength": -1}), "expected u64"),
        (json!([1]), "must be an object"),
        (json!({"oneOf": [{}]}), "unknown field `oneOf`"),
        (json!({"x-kubernetes-list-type": "set"}), "unknown field `x-kubernetes-list-type`"),
        (
            json!({"x-kubernetes-validations": [{"rule": "self.n > 1"}]}),
            "unknown field `x-kubernetes-validations`",
        ),
        (json!({"type": "string", "format": "ipv4"}), "does not enforce format \"ipv4\""),
        (json!({"type": "string", "format": "int32"}), "does not enforce format \"int32\""),
    ] {
        let error = Schema::compile(&schema).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

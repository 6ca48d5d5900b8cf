//! Pruning, defaulting and validation, keyword by keyword.

use super::{Part, Schema};
use crate::status::Cause;
use serde_json::{Value, json};

fn faults(schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    schema.validate(Part::Whole, value, old, &mut causes);
    causes
}

/// What the schema makes of a value, and what it says about the result.
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
fn strings_and_their_formats() {
    let schema = json!({"type": "string", "pattern": "^[a-z]+$", "maxLength": 3});
    accepts(&schema, &json!("abc"));
    refuses(&schema, &json!("ab1"), "x: Invalid value: \"ab1\": x in body should match '^[a-z]+$'");
    refuses(&schema, &json!("abcd"), "x: Too long: at most 3 are allowed");
    for (format, good, bad) in [
        ("date-time", "2026-01-02T03:04:05Z", "2026-01-02"),
        ("date", "2026-01-02", "2026-13-02"),
        ("uuid", "67e55044-10b1-426f-9247-bb680e5fe0c8", "67e55044"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("byte", "Zm9v", "?"),
    ] {
        let schema = json!({"type": "string", "format": format});
        accepts(&schema, &json!(good));
        refuses(&schema, &json!(bad), &format!("must be of type {format}"));
    }
}

#[test]
fn numbers_and_their_bounds() {
    let schema = json!({"type": "integer", "format": "int32", "minimum": 0, "exclusiveMinimum": true, "multipleOf": 2});
    accepts(&schema, &json!(2));
    refuses(&schema, &json!(0), "should be greater than 0");
    refuses(&schema, &json!(3), "should be a multiple of 2");
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
fn arrays_and_their_kinds() {
    refuses(&json!({"type": "array", "minItems": 1}), &json!([]), "should have at least 1 items");
    refuses(
        &json!({"type": "array", "uniqueItems": true}),
        &json!([1, 1]),
        "shouldn't contain duplicates",
    );
    let set =
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    refuses(&set, &json!(["a", "b", "a"]), "x[2]: Duplicate value: \"a\"");
    let item = json!({"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}});
    let map = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item});
    accepts(&map, &json!([{"k": "a", "v": 1}, {"k": "b", "v": 1}]));
    refuses(
        &map,
        &json!([{"k": "a", "v": 1}, {"k": "a", "v": 2}]),
        "x[1]: Duplicate value: {\"k\":\"a\"}",
    );
}

#[test]
fn objects_and_their_members() {
    let schema =
        json!({"type": "object", "maxProperties": 1, "additionalProperties": {"type": "integer"}});
    accepts(&schema, &json!({"anything": 1}));
    refuses(&schema, &json!({"a": 1, "b": 2}), "x: Too many: 2: at most 1 are allowed");
    refuses(&schema, &json!({"a": "1"}), "x.a: Invalid value: \"string\"");
    refuses(&json!({"type": "object", "required": ["a"]}), &json!({}), "x.a: Required value");
    refuses(&json!({"type": "object"}), &json!([1]), "must be of type object: \"array\"");
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    refuses(&embedded, &json!({"kind": "Pod"}), "x.apiVersion: Required value");
    accepts(&embedded, &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}));
}

#[test]
fn combinations() {
    let schema = json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    accepts(&schema, &json!({"a": ""}));
    refuses(&schema, &json!({}), "exactly one schema of oneOf");
    refuses(&schema, &json!({"a": "", "b": ""}), "exactly one schema of oneOf");
    refuses(
        &json!({"anyOf": [{"minimum": 5}, {"maximum": 1}]}),
        &json!(3),
        "at least one schema of anyOf",
    );
    refuses(&json!({"allOf": [{"minimum": 5}]}), &json!(3), "all schemas of allOf");
    refuses(
        &json!({"not": {"enum": ["a"]}}),
        &json!("a"),
        "must not be valid by the schema of not",
    );
    let either = json!({"x-kubernetes-int-or-string": true});
    accepts(&either, &json!("50%"));
    accepts(&either, &json!(50));
    refuses(&either, &json!(true), "must be of type integer,string");
}

#[test]
fn defaults_fill_what_is_there_and_only_that() {
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

    // Nulls among values that the schema does not name one by one.
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

fn rule(rule: &str) -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}, "a-b": {"type": "integer"},
            "namespace": {"type": "string"},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "list": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": rule, "messageExpression": "'n is ' + string(self.n)"}]})
}

#[test]
fn rules_hold_or_are_told() {
    let value =
        json!({"n": 3, "s": "abc", "a-b": 1, "namespace": "ns", "map": {"x-y": 2}, "list": [1, 2]});
    for good in [
        "self.n == 3",
        "has(self.s) && self.s.startsWith('a')",
        "!has(self.n) || self.n < 4",
        "self.a__dash__b == 1",
        "self.__namespace__ == 'ns'",
        "self.map['x-y'] == 2",
        "self.list.all(i, i > 0)",
        "self.list.exists(i, i == 2)",
        "self.s.matches('^[a-c]+$')",
        "size(self.list) == 2",
        "self.s in ['abc', 'd']",
        "self.s.upperAscii() == 'ABC'",
        "self.n > 2 ? true : false",
    ] {
        let (_, causes) = admit(&rule(good), &value);
        assert!(causes.is_empty(), "{good}: {causes:?}");
    }
    let (_, causes) = admit(&rule("self.n > 3"), &value);
    assert_eq!(causes, ["<nil>: Invalid value: n is 3"]);
}

#[test]
fn rules_that_fail_to_run_refuse_the_object() {
    let value = json!({"n": i64::MAX, "list": []});
    for bad in [
        "1 / (self.n - self.n) == 1",
        "self.n + 1 > 0",
        "self.list[5] == 1",
        "self.absent == 1",
        "self.n",
        "self.n % (self.n - self.n) == 0",
        "-self.n - 2 < 0",
    ] {
        let (_, causes) = admit(&rule(bad), &value);
        assert_eq!(causes.len(), 1, "{bad}: {causes:?}");
    }
}

#[test]
fn a_rule_about_change_needs_an_old_value() {
    let schema = Schema::compile(&rule("self.n >= oldSelf.n")).unwrap();
    assert!(faults(&schema, &json!({"n": 1}), None).is_empty());
    assert!(faults(&schema, &json!({"n": 2}), Some(&json!({"n": 1}))).is_empty());
    assert_eq!(faults(&schema, &json!({"n": 1}), Some(&json!({"n": 2}))).len(), 1);
}

#[test]
fn what_cannot_be_enforced_does_not_compile() {
    for (schema, message) in [
        (json!({"type": "strnig"}), "openAPIV3Schema.type: no such type"),
        (json!({"properties": {"a": {"pattern": "("}}}), "openAPIV3Schema.properties.a.pattern"),
        (json!({"$ref": "#/a"}), "openAPIV3Schema.$ref: this keyword is not supported"),
        (json!({"required": "a"}), "must be an array of strings"),
        (json!({"minLength": -1}), "must be a count"),
        (json!([1]), "must be an object"),
        (json!({"x-kubernetes-list-type": "map"}), "x-kubernetes-list-map-keys"),
        (rule("self.s.find('a') == 'a'"), "calls find"),
        (
            json!({"type": "string", "format": "date", "x-kubernetes-validations": [{"rule": "self != ''"}]}),
            "uses self, whose format",
        ),
        (rule("quantity(self.s).isGreaterThan(quantity('1'))"), "calls isGreaterThan and quantity"),
    ] {
        let error = Schema::compile(&schema).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

//! What is wrong with the schema of a CRD: no structure, no sense, or defaults that it would itself refuse.

use crate::schema::Schema;
use crate::status::Cause;
use serde_json::{Map, Value, json};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Checks the schema of a version.
pub(super) fn check_root(
    schema: &Map<String, Value>,
    has_status: bool,
    at: &str,
    causes: &mut Vec<Cause>,
) {
    let kind = text(schema, "type");
    let field = format!("{at}.type");
    if kind.is_empty() {
        causes.push(Cause::required(field, "must not be empty at the root"));
    } else if kind != "object" {
        causes.push(Cause::invalid(field.clone(), &json!(kind), "must be object at the root"));
        if has_status {
            let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            causes.push(Cause::invalid(field, &json!(kind), why));
        }
    }
    check(schema, at, causes);
}

fn text<'a>(schema: &'a Map<String, Value>, keyword: &str) -> &'a str {
    schema.get(keyword).and_then(Value::as_str).unwrap_or_default()
}

fn check(schema: &Map<String, Value>, at: &str, causes: &mut Vec<Cause>) {
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        let supported = TYPES.map(Value::from);
        causes.push(Cause::unsupported(format!("{at}.type"), &json!(kind), &supported));
    }
    check_pattern(schema, at, causes);
    check_default(schema, at, causes);
    for (name, child) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        check_child(child, &format!("{at}.properties[{name}]"), "specified object fields", causes);
    }
    for (keyword, of) in
        [("items", "specified array items"), ("additionalProperties", "specified object fields")]
    {
        if let Some(child) = schema.get(keyword) {
            check_child(child, &format!("{at}.{keyword}"), of, causes);
        }
    }
}

fn check_child(child: &Value, at: &str, of: &str, causes: &mut Vec<Cause>) {
    let Some(schema) = child.as_object() else { return };
    let free = ["x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"];
    let is_free = free.iter().any(|keyword| schema.get(*keyword) == Some(&Value::Bool(true)));
    if text(schema, "type").is_empty() && !is_free {
        let why = format!("must not be empty for {of}");
        causes.push(Cause::required(format!("{at}.type"), &why));
    }
    check(schema, at, causes);
}

fn check_pattern(schema: &Map<String, Value>, at: &str, causes: &mut Vec<Cause>) {
    let pattern = text(schema, "pattern");
    let Err(error) = regex::Regex::new(pattern) else { return };
    let why = format!("must be a valid regular expression: {error}");
    causes.push(Cause::invalid(format!("{at}.pattern"), &json!(pattern), why));
}

/// A default must be valid by the schema that it stands in.
fn check_default(schema: &Map<String, Value>, at: &str, causes: &mut Vec<Cause>) {
    let Some(default) = schema.get("default").filter(|default| !default.is_null()) else { return };
    // A schema that cannot be compiled is refused for that.
    let Ok(compiled) = Schema::compile(&Value::Object(schema.clone())) else { return };
    for mut cause in compiled.faults_of_default(default) {
        cause.field = match cause.field.as_str() {
            "<nil>" | "" => format!("{at}.default"),
            field => format!("{at}.default.{field}"),
        };
        causes.push(cause);
    }
}

/// The schema that a simple path leads to.
pub(super) fn below<'a>(schema: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut steps = path.strip_prefix('.')?.split('.');
    let first = schema.get("properties")?.get(steps.next()?)?;
    steps.try_fold(first, |at, step| at.get("properties")?.get(step))
}

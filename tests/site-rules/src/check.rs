//! Checks an object against a structural schema, as an API server does after it has filled in the schema's defaults.

use regex::Regex;
use serde_json::Value;

/// Checks `value`, which is the field `at` of an object, against `schema`, and appends the violations to `faults`.
pub(crate) fn value(schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    if !is_of_type(schema, value) {
        faults.push(format!("{at}: {value} is no {}", schema["type"]));
        return;
    }
    if let Some(choices) = schema["enum"].as_array().filter(|choices| !choices.contains(value)) {
        faults.push(format!("{at}: {value} is none of {choices:?}"));
    }
    match value {
        Value::Object(_) => object(schema, value, at, faults),
        Value::Array(items) => {
            bound(schema, ["minItems", "maxItems"], count(items.len()), at, faults);
            for (index, item) in items.iter().enumerate() {
                self::value(&schema["items"], item, &format!("{at}[{index}]"), faults);
            }
        }
        Value::String(text) => {
            bound(schema, ["minLength", "maxLength"], count(text.chars().count()), at, faults);
            let pattern = schema["pattern"].as_str().and_then(|pattern| Regex::new(pattern).ok());
            if pattern.is_some_and(|pattern| !pattern.is_match(text)) {
                faults.push(format!("{at}: {text:?} does not match {}", schema["pattern"]));
            }
        }
        Value::Number(number) => {
            bound(schema, ["minimum", "maximum"], number.as_f64().unwrap_or(f64::NAN), at, faults);
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn object(schema: &Value, object: &Value, at: &str, faults: &mut Vec<String>) {
    let path = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    for (name, member) in object.as_object().into_iter().flatten() {
        let inner = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
        if let Some(inner) = inner {
            value(inner, member, &path(name), faults);
        }
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if object.get(name).is_none() && schema["properties"][name].get("default").is_none() {
            faults.push(format!("{}: required value", path(name)));
        }
    }
}

fn is_of_type(schema: &Value, value: &Value) -> bool {
    match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        // The schema has no type: it is that of an IntOrString, which accepts any value but null.
        _ => !value.is_null(),
    }
}

/// Appends a fault if `size` is less than the value of the schema's keyword `least`, or more than the value of `most`.
fn bound(schema: &Value, [least, most]: [&str; 2], size: f64, at: &str, faults: &mut Vec<String>) {
    if schema[least].as_f64().is_some_and(|bound| size < bound) {
        faults.push(format!("{at}: {size} is below {least} {}", schema[least]));
    }
    if schema[most].as_f64().is_some_and(|bound| size > bound) {
        faults.push(format!("{at}: {size} is above {most} {}", schema[most]));
    }
}

fn count(items: usize) -> f64 {
    u32::try_from(items).map_or(f64::INFINITY, f64::from)
}

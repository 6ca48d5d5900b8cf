//! JSON values: their depth, their types, and the form in which numbers are stored.

use serde_json::{Value, json};

/// The smallest float that is larger than any int64.
pub(crate) const BEYOND_INTEGERS: f64 = 9_223_372_036_854_775_808.0;
/// Largest request body, and largest total of values that a patch copies, in bytes (apiserver `MaxRequestBodyBytes`).
pub(crate) const BODY_LIMIT: usize = 3 << 20;
/// Largest nesting depth of an object. This server's JSON parser (serde_json) accepts at most 128 levels, and lists and
/// events add a few levels around their objects.
pub(crate) const DEEPEST: usize = 100;

pub(crate) fn depth(value: &Value, limit: usize) -> usize {
    if limit == 0 {
        return 0;
    }
    let below = |value: &Value| depth(value, limit - 1);
    match value {
        Value::Object(map) => 1 + map.values().map(below).max().unwrap_or_default(),
        Value::Array(items) => 1 + items.iter().map(below).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Returns the JSON Schema name of a value's type.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() => "integer",
        // Kubernetes reads an integer that does not fit into an int64 as a float.
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Converts numbers to the form in which they are stored: `3.0` to `3`, and an integer that does not fit into an
/// int64 to a float.
pub(crate) fn canonical(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(canonical),
        Value::Object(map) => map.values_mut().for_each(canonical),
        Value::Number(number) if !number.is_i64() => {
            let float = number.as_f64().unwrap_or_default();
            let whole = float.fract() == 0.0 && float.abs() < BEYOND_INTEGERS;
            *value = if whole { without_fraction(float) } else { json!(float) };
        }
        Value::Number(_) | Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Returns the number without its fraction.
#[expect(clippy::cast_possible_truncation, reason = "dropping the fraction is the purpose")]
pub(crate) fn without_fraction(number: f64) -> Value {
    json!(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_are_stored_in_one_form() {
        let mut value = json!({"a": [3.0, 2.5, u64::MAX, 7], "b": 1e3});
        canonical(&mut value);
        assert_eq!(value, json!({"a": [3, 2.5, 1.844_674_407_370_955_2e19, 7], "b": 1000}));
    }
}

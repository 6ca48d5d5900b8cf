//! Numbers: JSON has one kind, Kubernetes an int64 and a float64.

use super::validate::at;
use super::{Schema, Type};
use crate::status::Cause;
use serde_json::{Number, Value, json};

/// The largest whole number that a float64 tells from its neighbours.
const LARGEST_WHOLE: f64 = 9_007_199_254_740_991.0;
/// The first float that is larger than an int64.
const BEYOND_INTEGERS: f64 = 9_223_372_036_854_775_808.0;

/// Whether a number without a fraction can be meant.
pub(super) fn is_whole(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() <= LARGEST_WHOLE
}

/// Whether a value is what an enumeration lists.
pub(super) fn is_choice(value: &Value, choice: &Value) -> bool {
    match (value, choice) {
        (Value::Null, _) => false,
        (Value::Number(value), Value::Number(choice)) => value.as_f64() == choice.as_f64(),
        (value, choice) => value == choice,
    }
}

/// Checks the bounds of a number, and that its type and format can hold it.
pub(super) fn check(schema: &Schema, number: &Number, path: &str, causes: &mut Vec<Cause>) {
    let constraints = &schema.constraints;
    let value = Value::Number(number.clone());
    let float = number.as_f64().unwrap_or_default();
    let mut refuse = |field: &str, detail: String| {
        causes.push(Cause::invalid(field, &value, format!("{path} in body should be {detail}")));
    };
    if let Some(factor) = constraints.multiple_of {
        let ratio = if factor < 1.0 { 1.0 / factor * float } else { float / factor };
        if !is_whole(ratio) {
            refuse(at(path), format!("a multiple of {factor}"));
        }
    }
    match constraints.minimum {
        Some((least, true)) if float <= least => refuse(at(path), format!("greater than {least}")),
        Some((least, _)) if float < least => {
            refuse(at(path), format!("greater than or equal to {least}"));
        }
        _ => {}
    }
    match constraints.maximum {
        Some((most, true)) if float >= most => refuse(at(path), format!("less than {most}")),
        Some((most, _)) if float > most => {
            refuse(at(path), format!("less than or equal to {most}"));
        }
        _ => {}
    }
    if !schema.holds(number) {
        let format = constraints.format.as_deref().unwrap_or("int64");
        // kube-apiserver does not name the field here.
        refuse("<nil>", format!("a number that {format} can hold"));
    }
}

impl Schema {
    /// Whether the type and format of a number can hold it.
    pub(super) fn holds(&self, number: &Number) -> bool {
        let float = number.as_f64().unwrap_or_default();
        let format = self.constraints.format.as_deref();
        match (self.kind, format) {
            (Some(Type::Integer), Some("int32")) => {
                (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&float)
            }
            (Some(Type::Integer), _) => number.is_i64() || float.abs() < BEYOND_INTEGERS,
            (Some(Type::Number), Some("float")) => float.abs() <= f64::from(f32::MAX),
            _ => true,
        }
    }
}

/// Writes numbers as they are stored: without a fraction of nothing, and floats where an int64 ends.
pub(crate) fn canonical(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(canonical),
        Value::Object(map) => map.values_mut().for_each(canonical),
        Value::Number(number) if !number.is_i64() => {
            let float = number.as_f64().unwrap_or_default();
            let whole = float.fract() == 0.0 && float.abs() < BEYOND_INTEGERS;
            *value = if whole { truncated(float) } else { json!(float) };
        }
        Value::Number(_) | Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// A number without what follows its point.
#[expect(clippy::cast_possible_truncation, reason = "that is what it is for")]
pub(crate) fn truncated(number: f64) -> Value {
    json!(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_numbers_have_one_form() {
        let mut value = json!({"a": [3.0, 2.5, u64::MAX, 7], "b": 1e3});
        canonical(&mut value);
        assert_eq!(value, json!({"a": [3, 2.5, 1.844_674_407_370_955_2e19, 7], "b": 1000}));
    }
}

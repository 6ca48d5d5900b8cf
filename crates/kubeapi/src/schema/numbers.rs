//! Numbers: JSON has a single type, Kubernetes an int64 and a float64.

use super::validate::at;
use super::{Schema, Type};
use crate::status::Cause;
use crate::value::BEYOND_INTEGERS;
use serde_json::{Number, Value};

/// Largest integer that a float64 distinguishes from its neighbours.
const LARGEST_WHOLE: f64 = 9_007_199_254_740_991.0;

/// Returns whether a float is an integer that a float64 holds exactly.
pub(super) fn is_whole(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() <= LARGEST_WHOLE
}

/// Returns whether a value equals one value of an enumeration; numbers are compared by value.
pub(super) fn is_choice(value: &Value, choice: &Value) -> bool {
    match (value, choice) {
        (Value::Null, _) => false,
        (Value::Number(value), Value::Number(choice)) => value.as_f64() == choice.as_f64(),
        (value, choice) => value == choice,
    }
}

/// Checks the bounds of a number, and whether its type and format can hold it.
pub(super) fn check(schema: &Schema, number: &Number, path: &str, causes: &mut Vec<Cause>) {
    let value = Value::Number(number.clone());
    let float = number.as_f64().unwrap_or_default();
    let mut refuse = |field: &str, detail: String| {
        causes.push(Cause::invalid(field, &value, format!("{path} in body should be {detail}")));
    };
    if let Some(least) = schema.value.0.filter(|least| float < *least) {
        refuse(at(path), format!("at least {least}"));
    }
    if let Some(most) = schema.value.1.filter(|most| float > *most) {
        refuse(at(path), format!("at most {most}"));
    }
    if !schema.holds(number) {
        let format = schema.format.as_deref().unwrap_or("int64");
        // kube-apiserver does not name the field here.
        refuse("<nil>", format!("a number that {format} can hold"));
    }
}

impl Schema {
    /// Returns whether the schema's type and format can hold a number.
    pub(super) fn holds(&self, number: &Number) -> bool {
        let float = number.as_f64().unwrap_or_default();
        let format = self.format.as_deref();
        match (self.kind, format) {
            (Some(Type::Integer), _) if float.fract() != 0.0 => false,
            (Some(Type::Integer), Some("int32")) => {
                (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&float)
            }
            (Some(Type::Integer), _) => number.is_i64() || float.abs() < BEYOND_INTEGERS,
            (Some(Type::Number), Some("float")) => float.abs() <= f64::from(f32::MAX),
            _ => true,
        }
    }
}

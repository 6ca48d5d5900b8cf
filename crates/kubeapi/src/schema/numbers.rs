//! Numbers as Go has them: a JSON number is an int64 when it can be, else a float64.

use super::validate::at;
use super::{Schema, Type};
use crate::status::Cause;
use serde_json::{Number, Value, json};

/// The largest whole number that a float64 tells from its neighbours.
const LARGEST_WHOLE: f64 = 9_007_199_254_740_991.0;

/// Whether a number without a fraction can be meant.
pub(super) fn is_whole(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number.fract() == 0.0 && number.abs() <= LARGEST_WHOLE)
}

/// The format that a value has of itself.
pub(super) fn implied_format(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        _ => "",
    }
}

/// Whether a value is what an enumeration lists; a number by the type of the choice, as in Go's conversions.
pub(super) fn is_choice(value: &Value, choice: &Value) -> bool {
    match (value, choice) {
        (Value::Null, _) => false,
        (Value::Number(value), Value::Number(choice)) => match (value.as_i64(), choice.as_i64()) {
            (Some(value), Some(choice)) => value == choice,
            (None, Some(choice)) => {
                value.as_f64().is_some_and(|value| value.trunc() == float(choice))
            }
            (_, None) => value.as_f64() == choice.as_f64(),
        },
        (value, choice) => value == choice,
    }
}

#[expect(clippy::cast_precision_loss, reason = "as in Go")]
fn float(number: i64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, reason = "as in Go")]
fn int(number: f64) -> i64 {
    number as i64
}

/// Checks the bounds of a number, and that it is one of its type and format.
pub(super) fn check(schema: &Schema, number: &Number, path: &str, causes: &mut Vec<Cause>) {
    let constraints = &schema.constraints;
    let format = constraints.format.as_deref();
    let ranged =
        |number: &Number, what: &str| out_of_range(schema.kind, format, number, what, path);
    let mut refuse = |detail: String| {
        let value = Value::Number(number.clone());
        causes.push(Cause::invalid(at(path), &value, format!("{path} in body should be {detail}")));
    };
    let mut strange = Vec::new();
    strange.extend(ranged(number, "Checked"));
    let float = number.as_f64().unwrap_or_default();
    let whole = number.as_i64();
    let limit = |limit: f64| match whole {
        Some(_) => go(&json!(int(limit))),
        None => go(&json!(limit)),
    };
    let compare = |limit: f64| match whole {
        Some(whole) => whole.cmp(&int(limit)),
        None => float.total_cmp(&limit),
    };
    let mut found = Vec::new();
    let nothing = constraints.multiple_of.filter(|factor| whole.is_some() && int(*factor) == 0);
    if nothing.is_some() {
        // A whole number is divided by what is left of the factor as a whole number.
        let detail = format!("factor MultipleOf declared for {path} must be positive: 0");
        strange.push(Cause::invalid(at(path), &json!(0), detail));
    } else if let Some(factor) = constraints.multiple_of {
        let multiple = match whole {
            Some(whole) if int(factor) > 0 => whole % int(factor) == 0,
            Some(_) | None if factor < 1.0 => is_whole(&json!(1.0 / factor * float)),
            Some(_) | None => is_whole(&json!(float / factor)),
        };
        if !multiple {
            found.push(format!("a multiple of {}", limit(factor)));
        }
    }
    if let Some((least, exclusive)) = constraints.minimum {
        let order = compare(least);
        if exclusive && order.is_le() {
            found.push(format!("greater than {}", limit(least)));
        } else if order.is_lt() {
            found.push(format!("greater than or equal to {}", limit(least)));
        }
    }
    if let Some((most, exclusive)) = constraints.maximum {
        let order = compare(most);
        if exclusive && order.is_ge() {
            found.push(format!("less than {}", limit(most)));
        } else if order.is_gt() {
            found.push(format!("less than or equal to {}", limit(most)));
        }
    }
    found.into_iter().for_each(&mut refuse);
    causes.splice(causes.len()..causes.len(), strange);
}

/// A number that its type or format cannot hold.
fn out_of_range(
    kind: Option<Type>,
    format: Option<&str>,
    number: &Number,
    what: &str,
    path: &str,
) -> Option<Cause> {
    let (name, format) = match kind {
        Some(Type::Integer) => ("integer", format),
        Some(Type::Number) => ("number", format),
        _ => return None,
    };
    let float = number.as_f64().unwrap_or_default();
    let whole = number.as_i64().or_else(|| {
        (float.fract() == 0.0 && float.abs() < 9_223_372_036_854_775_808.0).then(|| int(float))
    });
    let fits = match (name, format) {
        ("integer", Some("int32")) => whole.is_some_and(|whole| i32::try_from(whole).is_ok()),
        ("integer", _) => whole.is_some(),
        (_, Some("float")) => float.abs() <= f64::from(f32::MAX),
        _ => true,
    };
    if fits {
        return None;
    }
    let how =
        format.map_or("(default format)".to_owned(), |format| format!("with format {format}"));
    let detail = format!("{what} value must be of type {name} {how} in {path}");
    Some(Cause::invalid("<nil>", &json!(""), detail))
}

/// A scalar as Go's `%v` writes it; anything else as JSON.
pub(crate) fn go(value: &Value) -> String {
    let Value::Number(number) = value else { return value.to_string() };
    if number.is_i64() {
        return number.to_string();
    }
    let float = number.as_f64().unwrap_or_default();
    let text = format!("{float:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        format!("{float}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.abs())
    }
}

/// A value as Go's JSON encoder writes it: floats without an exponent, as long as they are not very large or small.
pub(crate) fn json(value: &Value) -> String {
    struct Floats;
    impl serde_json::ser::Formatter for Floats {
        fn write_f64<W: ?Sized + std::io::Write>(
            &mut self,
            to: &mut W,
            float: f64,
        ) -> std::io::Result<()> {
            let size = float.abs();
            if float == 0.0 || (1e-6..1e21).contains(&size) {
                write!(to, "{float}")
            } else {
                let text = format!("{float:e}");
                to.write_all(
                    if size < 1.0 { text.clone() } else { text.replace('e', "e+") }.as_bytes(),
                )
            }
        }
    }
    let mut text = Vec::new();
    let written = serde::Serialize::serialize(
        value,
        &mut serde_json::Serializer::with_formatter(&mut text, Floats),
    );
    debug_assert!(written.is_ok(), "a vector takes everything");
    String::from_utf8_lossy(&text).into_owned()
}

/// Writes numbers as Go stores them: without a fraction of nothing, and floats where an int64 ends.
pub(crate) fn canonical(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(canonical),
        Value::Object(map) => map.values_mut().for_each(canonical),
        Value::Number(number) if !number.is_i64() => {
            let float = number.as_f64().unwrap_or_default();
            *value = if float.fract() == 0.0 && float.abs() < 9_223_372_036_854_775_808.0 {
                json!(int(float))
            } else {
                json!(float)
            };
        }
        Value::Number(_) | Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// A number without what follows its point.
pub(crate) fn truncated(value: &Value) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "as Go converts it")]
    let whole = value.as_f64().map(|number| number as i64);
    whole.map_or(Value::Null, Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_go_writes_them() {
        let cases = [
            (json!(3), "3"),
            (json!(-0.5), "-0.5"),
            (json!(2.0), "2"),
            (json!(1e19), "1e+19"),
            (json!(1e-9), "1e-09"),
            (json!(true), "true"),
        ];
        for (value, text) in cases {
            assert_eq!(go(&value), text);
        }
    }

    #[test]
    fn stored_numbers_have_one_form() {
        let mut value = json!({"a": [3.0, 2.5, u64::MAX, 7], "b": 1e3});
        canonical(&mut value);
        assert_eq!(value, json!({"a": [3, 2.5, 1.844_674_407_370_955_2e19, 7], "b": 1000}));
    }
}

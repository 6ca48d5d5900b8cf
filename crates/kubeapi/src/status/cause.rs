//! One faulty field of an object (`field.Error` of apimachinery).

use serde_json::Value;
use std::fmt;

/// One faulty field, with the reason.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cause {
    pub(crate) field: String,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Cause {
    fn new(field: impl Into<String>, reason: &'static str, message: String) -> Self {
        Self { field: field.into(), reason, message }
    }

    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = format!("Required value: {detail}");
        let message = message.trim_end_matches(": ").to_owned();
        Self::new(field, "FieldValueRequired", message)
    }

    pub(crate) fn invalid(
        field: impl Into<String>,
        value: &Value,
        detail: impl fmt::Display,
    ) -> Self {
        Self::invalid_without_value(field, format!("{value}: {detail}"))
    }

    /// Builds a cause for a value that is too large to be shown.
    pub(crate) fn invalid_without_value(
        field: impl Into<String>,
        detail: impl fmt::Display,
    ) -> Self {
        Self::new(field, "FieldValueInvalid", format!("Invalid value: {detail}"))
    }

    pub(crate) fn wrong_type(
        field: impl Into<String>,
        value: &Value,
        detail: impl fmt::Display,
    ) -> Self {
        Self { reason: "FieldValueTypeInvalid", ..Self::invalid(field, value, detail) }
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self::new(field, "FieldValueForbidden", format!("Forbidden: {detail}"))
    }

    pub(crate) fn unsupported(
        field: impl Into<String>,
        value: &Value,
        supported: &[Value],
    ) -> Self {
        let supported: Vec<String> = supported.iter().map(Value::to_string).collect();
        let supported = supported.join(", ");
        let message = format!("Unsupported value: {value}: supported values: {supported}");
        Self::new(field, "FieldValueNotSupported", message)
    }

    /// Builds a cause for a value longer than `limit`: in bytes for built-in kinds, in characters where a CRD's
    /// schema sets the limit.
    pub(crate) fn too_long(field: impl Into<String>, limit: u64) -> Self {
        Self::new(field, "FieldValueTooLong", format!("Too long: at most {limit} are allowed"))
    }

    pub(crate) fn too_many(field: impl Into<String>, count: usize, limit: u64) -> Self {
        let message = format!("Too many: {count}: at most {limit} are allowed");
        Self::new(field, "FieldValueTooMany", message)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.field, self.message)
        }
    }
}

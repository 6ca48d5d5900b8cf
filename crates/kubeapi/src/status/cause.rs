//! What is wrong with one field of an object, in apimachinery's words.

use serde_json::Value;
use std::fmt;

/// One field that is wrong (`field.Error` of apimachinery).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cause {
    pub(crate) field: String,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Cause {
    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        Self { field: field.into(), reason: "FieldValueRequired", message }
    }

    pub(crate) fn invalid(
        field: impl Into<String>,
        value: &Value,
        detail: impl fmt::Display,
    ) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {value}: {detail}"),
        }
    }

    /// For values that are too large to be shown.
    pub(crate) fn invalid_without_value(
        field: impl Into<String>,
        detail: impl fmt::Display,
    ) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {detail}"),
        }
    }

    pub(crate) fn wrong_type(
        field: impl Into<String>,
        value: &Value,
        detail: impl fmt::Display,
    ) -> Self {
        Self { reason: "FieldValueTypeInvalid", ..Self::invalid(field, value, detail) }
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueForbidden",
            message: format!("Forbidden: {detail}"),
        }
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueDuplicate",
            message: format!("Duplicate value: {value}"),
        }
    }

    pub(crate) fn unsupported(
        field: impl Into<String>,
        value: &Value,
        supported: &[Value],
    ) -> Self {
        let supported: Vec<String> = supported.iter().map(Value::to_string).collect();
        Self {
            field: field.into(),
            reason: "FieldValueNotSupported",
            message: format!(
                "Unsupported value: {}: supported values: {}",
                value,
                supported.join(", ")
            ),
        }
    }

    pub(crate) fn too_long(field: impl Into<String>, limit: u64) -> Self {
        let bytes = if limit == 1 { "byte" } else { "bytes" };
        Self {
            field: field.into(),
            reason: "FieldValueTooLong",
            message: format!("Too long: may not be more than {limit} {bytes}"),
        }
    }

    pub(crate) fn too_many(field: impl Into<String>, count: usize, limit: u64) -> Self {
        let items = if limit == 1 { "item" } else { "items" };
        Self {
            field: field.into(),
            reason: "FieldValueTooMany",
            message: format!("Too many: {count}: must have at most {limit} {items}"),
        }
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

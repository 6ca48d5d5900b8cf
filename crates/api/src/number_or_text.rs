//! `NumberOrText`: a JSON value like Kubernetes' `IntOrString`, for numbers of any size. `IntOrString` holds 32 bits; a
//! single larger job id would make the list of all Workflows unreadable.

use std::{borrow::Cow, fmt};

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Number;

/// A JSON number or string. Its schema is that of `IntOrString`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum NumberOrText {
    /// A JSON number.
    Number(Number),
    /// A JSON string.
    Text(String),
}

impl From<&str> for NumberOrText {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for NumberOrText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl JsonSchema for NumberOrText {
    fn schema_name() -> Cow<'static, str> {
        "NumberOrText".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        IntOrString::json_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_64_bits_are_written_as_they_were_read() {
        for json in ["501360523054545920", "-3", "18446744073709551615", "\"f2AVx5nQsoRy\""] {
            let read: NumberOrText = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), json);
            assert_eq!(read.to_string(), json.trim_matches('"'));
        }
    }
}

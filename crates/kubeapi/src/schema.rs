//! A CRD's OpenAPI schema, compiled once. The compiled schema prunes, defaults and validates every object
//! that a client writes.

mod compile;
mod default;
mod formats;
mod numbers;
mod prune;
mod validate;

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// One node of a structural schema (apiextensions `Structural`).
#[derive(Debug, Default)]
pub(crate) struct Schema {
    kind: Option<Type>,
    nullable: bool,
    int_or_string: bool,
    preserve_unknown: bool,
    properties: BTreeMap<String, Schema>,
    additional: Option<Box<Schema>>,
    items: Option<Box<Schema>>,
    default: Option<Value>,
    required: Vec<String>,
    /// Values of `enum`; empty when any value is accepted.
    choices: Vec<Value>,
    pattern: Option<Regex>,
    format: Option<String>,
    /// Smallest and largest permitted number.
    value: (Option<f64>, Option<f64>),
    /// Smallest and largest permitted number of characters in a string.
    length: (Option<u64>, Option<u64>),
    /// Smallest and largest permitted number of items in a list.
    count: (Option<u64>, Option<u64>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// The part of an object that a write may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Status,
}

#[cfg(test)]
mod tests;

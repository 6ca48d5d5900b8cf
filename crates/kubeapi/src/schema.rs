//! A CRD's OpenAPI schema, compiled once: what prunes, defaults and validates every object that is written.

mod cel;
mod compile;
mod default;
mod fit;
mod formats;
mod lists;
mod numbers;
mod prune;
mod rules;
mod validate;

use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;

/// One node of a structural schema (apiextensions `Structural`).
#[derive(Debug, Default)]
pub(crate) struct Schema {
    kind: Option<Type>,
    nullable: bool,
    int_or_string: bool,
    preserve_unknown: bool,
    embedded_resource: bool,
    properties: BTreeMap<String, Schema>,
    additional: Option<Box<Schema>>,
    items: Option<Box<Schema>>,
    default: Option<Value>,
    rules: Vec<cel::Rule>,
    /// Whether there are rules here or further down.
    has_rules: bool,
    constraints: Constraints,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

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

/// What of an object a write can have made wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Status,
}

/// What a value must satisfy beyond its type.
#[derive(Debug, Default)]
struct Constraints {
    required: Vec<String>,
    enumeration: Vec<Value>,
    pattern: Option<Regex>,
    format: Option<String>,
    minimum: Option<(f64, bool)>,
    maximum: Option<(f64, bool)>,
    multiple_of: Option<f64>,
    length: Range,
    items: Range,
    properties: Range,
    unique_items: bool,
    list_type: ListType,
    all_of: Vec<Schema>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Range {
    least: Option<u64>,
    most: Option<u64>,
}

#[derive(Debug, Default, PartialEq)]
enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

#[cfg(test)]
mod tests;

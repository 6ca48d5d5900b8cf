//! Compiles `openAPIV3Schema` JSON to [`Schema`]. A keyword that could not be enforced is refused here, never ignored
//! later.

use super::{Schema, Type, formats};
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use thiserror::Error;

/// Deepest nesting of an accepted schema; generated schemas have far fewer levels.
const DEEPEST: usize = 64;
/// Largest size of a compiled pattern, in bytes.
const PATTERN_SIZE: usize = 1 << 20;

/// Keywords for people and clients, which the server does not enforce.
const DESCRIPTIVE: [&str; 6] = [
    "description",
    "title",
    "example",
    "externalDocs",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-strategy",
];

/// Error: a schema is malformed, or this server cannot enforce it.
#[derive(Debug, Error, PartialEq)]
#[error("{path}: {problem}")]
pub(crate) struct CompileError {
    pub(crate) path: String,
    pub(crate) problem: String,
}

/// The keywords of one node that this server enforces. Any other keyword is refused.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Keywords {
    r#type: Option<Type>,
    nullable: bool,
    #[serde(rename = "x-kubernetes-int-or-string")]
    int_or_string: bool,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    preserve_unknown: bool,
    default: Option<Value>,
    properties: BTreeMap<String, Value>,
    additional_properties: Option<Value>,
    items: Option<Value>,
    required: Vec<String>,
    r#enum: Vec<Value>,
    pattern: Option<String>,
    format: Option<String>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    min_items: Option<u64>,
    max_items: Option<u64>,
}

impl Keywords {
    fn read(schema: &Value) -> Result<Self, String> {
        let mut map = schema.as_object().ok_or("must be an object")?.clone();
        map.retain(|keyword, _| !DESCRIPTIVE.contains(&keyword.as_str()));
        serde_json::from_value(map.into()).map_err(|error| error.to_string())
    }
}

impl Schema {
    /// Compiles the schema of one version.
    pub(crate) fn compile(schema: &Value) -> Result<Self, CompileError> {
        Self::node(schema, "openAPIV3Schema", 0)
    }

    fn node(schema: &Value, path: &str, depth: usize) -> Result<Self, CompileError> {
        let refused = |problem| CompileError { path: path.to_owned(), problem };
        if depth > DEEPEST {
            return Err(refused("nested too deeply".to_owned()));
        }
        let written = Keywords::read(schema).map_err(refused)?;
        let below =
            |step: &str, schema: &Value| Self::node(schema, &format!("{path}.{step}"), depth + 1);
        let mut properties = BTreeMap::new();
        for (name, property) in &written.properties {
            properties.insert(name.clone(), below(&format!("properties.{name}"), property)?);
        }
        let additional = match &written.additional_properties {
            None | Some(Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(Self::anything()),
            Some(schema) => Some(below("additionalProperties", schema)?),
        };
        let items = written.items.as_ref().map(|schema| below("items", schema)).transpose()?;
        Ok(Self {
            kind: written.r#type,
            nullable: written.nullable,
            int_or_string: written.int_or_string,
            preserve_unknown: written.preserve_unknown,
            properties,
            additional: additional.map(Box::new),
            items: items.map(Box::new),
            default: written.default,
            required: written.required,
            choices: written.r#enum,
            pattern: written.pattern.as_deref().map(pattern).transpose().map_err(refused)?,
            format: formats::check_enforced(written.r#type, written.format).map_err(refused)?,
            value: (written.minimum, written.maximum),
            length: (written.min_length, written.max_length),
            count: (written.min_items, written.max_items),
        })
    }

    fn anything() -> Self {
        Self { preserve_unknown: true, nullable: true, ..Self::default() }
    }
}

fn pattern(text: &str) -> Result<Regex, String> {
    let pattern = RegexBuilder::new(text).size_limit(PATTERN_SIZE).build();
    pattern.map_err(|problem| format!("pattern: {problem}"))
}

//! From `openAPIV3Schema` JSON to [`Schema`]. A keyword that could not be enforced is refused here, never ignored later.

use super::cel::Rule;
use super::{Constraints, ListType, Schema, Type, formats};
use regex::RegexBuilder;
use serde_json::{Map, Value};
use thiserror::Error;

/// Levels of nesting of a schema that is accepted; generated ones have far fewer.
const DEEPEST: usize = 64;
/// Bytes a compiled pattern may take.
const PATTERN_SIZE: usize = 1 << 20;

/// A schema that is malformed, or that this server cannot enforce.
#[derive(Debug, Error, PartialEq)]
#[error("{path}: {problem}")]
pub(crate) struct CompileError {
    pub(crate) path: String,
    pub(crate) problem: String,
}

/// Keywords for people and clients, which the server does not enforce.
const DESCRIPTIVE: [&str; 6] = [
    "description",
    "title",
    "example",
    "externalDocs",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-strategy",
];

struct Node<'a> {
    path: String,
    map: &'a Map<String, Value>,
}

impl Schema {
    /// Compiles the schema of one version.
    ///
    /// # Errors
    /// Names the place and the keyword that is unknown, malformed or beyond this server.
    pub(crate) fn compile(schema: &Value) -> Result<Self, CompileError> {
        Self::node(schema, "openAPIV3Schema", 0)
    }

    fn node(schema: &Value, path: &str, depth: usize) -> Result<Self, CompileError> {
        let map = schema.as_object().ok_or_else(|| error(path, "must be an object"))?;
        if depth > DEEPEST {
            return Err(error(path, "nested too deeply"));
        }
        let node = Node { path: path.to_owned(), map };
        let mut compiled = Self::default();
        for (keyword, value) in map {
            compiled.keyword(&node, keyword, value, depth + 1)?;
        }
        if let Some((least, exclusive)) = &mut compiled.constraints.minimum {
            *exclusive = node.flag("exclusiveMinimum")?;
            debug_assert!(least.is_finite());
        }
        if let Some((_, exclusive)) = &mut compiled.constraints.maximum {
            *exclusive = node.flag("exclusiveMaximum")?;
        }
        compiled.rules = Rule::compile_all(map.get("x-kubernetes-validations"), schema)
            .map_err(|problem| error(&format!("{path}.x-kubernetes-validations"), &problem))?;
        let format = compiled.constraints.format.take();
        compiled.constraints.format =
            format.and_then(|format| formats::enforced(compiled.kind, &format));
        let below = compiled.properties.values().chain(compiled.additional.as_deref());
        compiled.has_rules = !compiled.rules.is_empty()
            || below.chain(compiled.items.as_deref()).any(|schema| schema.has_rules);
        Ok(compiled)
    }

    fn keyword(
        &mut self,
        node: &Node<'_>,
        keyword: &str,
        value: &Value,
        depth: usize,
    ) -> Result<(), CompileError> {
        match keyword {
            "type" => {
                let name = node.text(keyword)?;
                self.kind = Some(
                    Type::parse(&name).ok_or_else(|| error(&node.at(keyword), "no such type"))?,
                );
            }
            "nullable" => self.nullable = node.flag(keyword)?,
            "x-kubernetes-int-or-string" => self.int_or_string = node.flag(keyword)?,
            "x-kubernetes-preserve-unknown-fields" => self.preserve_unknown = node.flag(keyword)?,
            "x-kubernetes-embedded-resource" => self.embedded_resource = node.flag(keyword)?,
            "default" => self.default = Some(value.clone()).filter(|value| !value.is_null()),
            "properties" => {
                for (name, property) in node.children(keyword)? {
                    let path = format!("{}.{name}", node.at(keyword));
                    self.properties.insert(name.clone(), Self::node(property, &path, depth)?);
                }
            }
            "additionalProperties" => self.additional = Self::additional(node, value, depth)?,
            "items" => self.items = Some(Box::new(Self::node(value, &node.at(keyword), depth)?)),
            "x-kubernetes-validations"
            | "exclusiveMinimum"
            | "exclusiveMaximum"
            | "x-kubernetes-list-map-keys" => {}
            _ if DESCRIPTIVE.contains(&keyword) => {}
            _ => return self.constraints.keyword(node, keyword, value, depth),
        }
        Ok(())
    }

    fn additional(
        node: &Node<'_>,
        value: &Value,
        depth: usize,
    ) -> Result<Option<Box<Self>>, CompileError> {
        match value {
            Value::Bool(false) => Ok(None),
            Value::Bool(true) => Ok(Some(Box::new(Self {
                preserve_unknown: true,
                nullable: true,
                ..Self::default()
            }))),
            schema => {
                Ok(Some(Box::new(Self::node(schema, &node.at("additionalProperties"), depth)?)))
            }
        }
    }
}

impl Constraints {
    fn keyword(
        &mut self,
        node: &Node<'_>,
        keyword: &str,
        value: &Value,
        depth: usize,
    ) -> Result<(), CompileError> {
        match keyword {
            "required" => self.required = node.texts(keyword)?,
            "enum" => {
                let values =
                    value.as_array().ok_or_else(|| error(&node.at(keyword), "must be an array"))?;
                self.enumeration.clone_from(values);
            }
            "pattern" => {
                let pattern =
                    RegexBuilder::new(&node.text(keyword)?).size_limit(PATTERN_SIZE).build();
                self.pattern = Some(
                    pattern.map_err(|problem| error(&node.at(keyword), &problem.to_string()))?,
                );
            }
            "format" => self.format = Some(node.text(keyword)?),
            "minimum" => self.minimum = Some((node.number(keyword)?, false)),
            "maximum" => self.maximum = Some((node.number(keyword)?, false)),
            "multipleOf" => {
                let factor = node.number(keyword)?;
                if factor <= 0.0 {
                    return Err(error(&node.at(keyword), "must be greater than 0"));
                }
                self.multiple_of = Some(factor);
            }
            "minLength" => self.length.least = Some(node.count(keyword)?),
            "maxLength" => self.length.most = Some(node.count(keyword)?),
            "minItems" => self.items.least = Some(node.count(keyword)?),
            "maxItems" => self.items.most = Some(node.count(keyword)?),
            "minProperties" => self.properties.least = Some(node.count(keyword)?),
            "maxProperties" => self.properties.most = Some(node.count(keyword)?),
            "uniqueItems" => self.unique_items = node.flag(keyword)?,
            "x-kubernetes-list-type" => self.list_type = ListType::compile(node)?,
            "allOf" => self.all_of = node.schemas(keyword, depth)?,
            "anyOf" => self.any_of = node.schemas(keyword, depth)?,
            "oneOf" => self.one_of = node.schemas(keyword, depth)?,
            "not" => self.not = Some(Box::new(Schema::node(value, &node.at(keyword), depth)?)),
            _ => {
                return Err(error(
                    &node.at(keyword),
                    "this keyword is not supported in a structural schema",
                ));
            }
        }
        Ok(())
    }
}

impl ListType {
    fn compile(node: &Node<'_>) -> Result<Self, CompileError> {
        match node.text("x-kubernetes-list-type")?.as_str() {
            "atomic" => Ok(Self::Atomic),
            "set" => Ok(Self::Set),
            "map" => Ok(Self::Map(node.texts("x-kubernetes-list-map-keys")?)),
            _ => Err(error(&node.at("x-kubernetes-list-type"), "must be atomic, set or map")),
        }
    }
}

impl<'a> Node<'a> {
    fn at(&self, keyword: &str) -> String {
        format!("{}.{keyword}", self.path)
    }

    fn get<T>(
        &self,
        keyword: &str,
        read: impl Fn(&'a Value) -> Option<T>,
        want: &str,
    ) -> Result<T, CompileError> {
        self.map
            .get(keyword)
            .and_then(read)
            .ok_or_else(|| error(&self.at(keyword), &format!("must be {want}")))
    }

    fn text(&self, keyword: &str) -> Result<String, CompileError> {
        self.get(keyword, |value| value.as_str().map(str::to_owned), "a string")
    }

    fn number(&self, keyword: &str) -> Result<f64, CompileError> {
        self.get(keyword, Value::as_f64, "a number")
    }

    fn count(&self, keyword: &str) -> Result<u64, CompileError> {
        self.get(keyword, Value::as_u64, "a count")
    }

    fn flag(&self, keyword: &str) -> Result<bool, CompileError> {
        if self.map.contains_key(keyword) {
            self.get(keyword, Value::as_bool, "true or false")
        } else {
            Ok(false)
        }
    }

    fn children(&self, keyword: &str) -> Result<&'a Map<String, Value>, CompileError> {
        self.get(keyword, Value::as_object, "an object")
    }

    fn texts(&self, keyword: &str) -> Result<Vec<String>, CompileError> {
        let strings = |value: &Value| {
            value
                .as_array()?
                .iter()
                .map(|item| item.as_str().map(str::to_owned))
                .collect::<Option<Vec<_>>>()
        };
        self.get(keyword, strings, "an array of strings")
    }

    fn schemas(&self, keyword: &str, depth: usize) -> Result<Vec<Schema>, CompileError> {
        let schemas = self.get(keyword, Value::as_array, "an array of schemas")?;
        let compile = |(index, schema)| {
            Schema::node(schema, &format!("{}[{index}]", self.at(keyword)), depth)
        };
        schemas.iter().enumerate().map(compile).collect()
    }
}

fn error(path: &str, problem: &str) -> CompileError {
    CompileError { path: path.to_owned(), problem: problem.to_owned() }
}

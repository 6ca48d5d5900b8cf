//! Reading objects of built-in kinds: fields of another type are refused, and times get one form.

use super::{Schema, Type, formats};
use serde_json::{Map, Value};

impl Schema {
    /// Describes the first field whose type or format is not the schema's; a null fits everywhere.
    pub(crate) fn misfit(&self, body: &Map<String, Value>) -> Option<String> {
        body.iter().find_map(|(name, value)| self.member(name)?.misfit_at(value, name))
    }

    fn member(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(self.additional.as_deref())
    }

    fn misfit_at(&self, value: &Value, path: &str) -> Option<String> {
        let fits = match (self.kind, value) {
            (None, _) | (_, Value::Null) | (Some(Type::Boolean), Value::Bool(_)) => true,
            (Some(Type::Object), Value::Object(map)) => return self.misfit(map),
            (Some(Type::Array), Value::Array(items)) => {
                let schema = self.items.as_ref()?;
                return items.iter().find_map(|item| schema.misfit_at(item, path));
            }
            (Some(Type::String), Value::String(text)) => {
                let format = self.format.as_deref();
                format.is_none_or(|format| formats::fits(text, format))
            }
            (Some(Type::Integer), Value::Number(number)) => number.is_i64() && self.holds(number),
            _ => false,
        };
        let wanted = self.format.as_deref().or(self.kind.map(Type::name));
        (!fits).then(|| format!("{path} must be of type {}, not {value}", wanted.unwrap_or("any")))
    }

    /// Writes the values of a built-in kind as they are stored: times in one form, a null among texts as an empty one.
    pub(crate) fn store_form(&self, body: &mut Map<String, Value>) {
        for (name, value) in body {
            let Some(schema) = self.member(name) else { continue };
            match value {
                Value::Null if self.additional.is_some() && schema.kind == Some(Type::String) => {
                    *value = Value::from("");
                }
                Value::String(text) => {
                    let format = schema.format.as_deref();
                    if let Some(time) = format.and_then(|format| formats::canonical(text, format)) {
                        *text = time;
                    }
                }
                Value::Object(map) => schema.store_form(map),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {}
            }
        }
    }
}

//! How Go reads and writes an object of a built-in kind: what fits the types of its fields, and in what form it is written.

use super::{Schema, Type, formats, numbers};
use serde_json::{Map, Value};

impl Schema {
    /// What of an object does not fit the types of the schema, or their formats; a null fits everywhere.
    pub(crate) fn misfit(&self, body: &Map<String, Value>) -> Option<String> {
        let mut causes = Vec::new();
        for (name, value) in body {
            if let Some(schema) = self.properties.get(name) {
                schema.check_fit(value, name, &mut causes);
            }
        }
        causes.into_iter().next()
    }

    /// Writes a value of a built-in kind as Go does: times in one form, a null among texts as an empty one.
    pub(crate) fn as_go(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                let format = self.constraints.format.as_deref();
                if let Some(time) = format.and_then(|format| formats::canonical(text, format)) {
                    *text = time;
                }
            }
            Value::Object(map) => {
                for (name, child) in map.iter_mut() {
                    let schema = self.properties.get(name).or(self.additional.as_deref());
                    schema.into_iter().for_each(|schema| schema.as_go(child));
                    let texts = self.additional.as_ref().and_then(|texts| texts.kind);
                    if child.is_null() && texts == Some(Type::String) {
                        *child = Value::from("");
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {}
        }
    }

    fn check_fit(&self, value: &Value, path: &str, misfits: &mut Vec<String>) {
        let mut causes = Vec::new();
        self.check_type(value, path, &mut causes);
        if let (Value::Number(number), Some(Type::Integer)) = (value, self.kind) {
            numbers::check(self, number, path, &mut causes);
            causes.retain(|cause| cause.field == "<nil>");
            if !number.is_i64() {
                misfits.push(misread(&format!("number {number}"), path, Type::Integer));
            }
        }
        if self.kind == Some(Type::String) && !value.is_string() && !value.is_null() {
            misfits.push(misread(crate::object::type_name(value), path, Type::String));
        }
        match value {
            Value::Null => return,
            Value::String(text) => {
                let format = self.constraints.format.as_deref();
                misfits.extend(format.and_then(|format| formats::misfit(text, format)));
            }
            Value::Object(map) => {
                for (name, child) in map {
                    let schema = self.properties.get(name).or(self.additional.as_deref());
                    schema.into_iter().for_each(|schema| schema.check_fit(child, name, misfits));
                }
            }
            Value::Array(items) => {
                let schema = self.items.iter();
                schema.for_each(|schema| {
                    items.iter().for_each(|item| schema.check_fit(item, path, misfits));
                });
            }
            Value::Bool(_) | Value::Number(_) => {}
        }
        if let (false, Some(kind)) = (causes.is_empty(), self.kind) {
            misfits.push(misread(crate::object::type_name(value), path, kind));
        }
    }
}

/// What Go says of a value of another type than its place has.
fn misread(found: &str, path: &str, wanted: Type) -> String {
    format!("json: cannot unmarshal {found} into {path} of type {}", wanted.name())
}

//! Validation. Each fault names the same field as kube-openapi's validator names for it (`pkg/validation/validate`).

use super::prune::within;
use super::{Part, Schema, Type, formats, numbers};
use crate::status::Cause;
use serde_json::{Map, Value, json};

/// Largest number of causes in a refusal.
const ENOUGH: usize = 100;
impl Schema {
    /// Appends all schema violations to `causes`, except for violations that `old`, the object before the update,
    /// already has.
    pub(crate) fn validate(
        &self,
        part: Part,
        object: &Value,
        old: Option<&Value>,
        causes: &mut Vec<Cause>,
    ) {
        let known = old.map(|old| self.shape(part, old)).unwrap_or_default();
        causes.extend(self.shape(part, object).into_iter().filter(|cause| !known.contains(cause)));
        causes.truncate(ENOUGH);
    }

    /// Describes the first field whose type or number format differs from the schema's.
    pub(crate) fn first_type_fault(&self, body: &Map<String, Value>) -> Option<String> {
        let mut causes = Vec::new();
        self.check_object(body, &mut String::new(), &mut causes);
        let of_type =
            |cause: &&Cause| cause.reason == "FieldValueTypeInvalid" || cause.field == "<nil>";
        causes.iter().find(of_type).map(ToString::to_string)
    }

    fn shape(&self, part: Part, object: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        match (part, self.properties.get("status"), object.get("status")) {
            (Part::Status, Some(schema), Some(status)) => {
                schema.check(status, &mut String::new(), &mut causes);
                // As in kube-apiserver, the cause's message has the path within the status, but its field has the path
                // within the object.
                for cause in &mut causes {
                    cause.field = match cause.field.as_str() {
                        "<nil>" => "status".to_owned(),
                        field => format!("status.{field}"),
                    };
                }
            }
            (Part::Status, _, _) => {}
            (Part::Whole, _, _) => self.check(object, &mut String::new(), &mut causes),
        }
        causes
    }

    fn check(&self, value: &Value, path: &mut String, causes: &mut Vec<Cause>) {
        if causes.len() > ENOUGH {
            return;
        }
        self.check_type(value, path, causes);
        match value {
            Value::String(text) => self.check_string(text, path, causes),
            Value::Number(number) => numbers::check(self, number, path, causes),
            Value::Array(items) => self.check_array(items, path, causes),
            Value::Object(_) | Value::Null | Value::Bool(_) => {}
        }
        self.check_enumeration(value, path, causes);
        if let Value::Object(map) = value {
            self.check_object(map, path, causes);
        }
    }

    /// Returns the names of the types that the schema allows.
    fn types(&self) -> Option<&'static str> {
        if self.int_or_string { Some("integer,string") } else { self.kind.map(Type::name) }
    }

    fn allows(&self, kind: &str) -> bool {
        self.types().is_some_and(|types| types.split(',').any(|allowed| allowed == kind))
    }

    fn check_type(&self, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        let Some(types) = self.types() else { return };
        let found = crate::value::type_name(value);
        let fits = match value {
            Value::Null => self.nullable,
            Value::Number(number) if self.allows("integer") => {
                number.is_i64() || numbers::is_whole(number.as_f64().unwrap_or_default())
            }
            Value::Number(_) => self.allows("number"),
            Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                self.allows(found)
            }
        };
        if !fits {
            causes.push(wrong_type(path, types, found));
        }
    }

    fn check_enumeration(&self, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        if !self.choices.is_empty()
            && !self.choices.iter().any(|choice| numbers::is_choice(value, choice))
        {
            causes.push(Cause::unsupported(at(path), value, &self.choices));
        }
    }

    fn check_string(&self, text: &str, path: &str, causes: &mut Vec<Cause>) {
        let length = text.chars().count() as u64;
        let pattern = self.pattern.as_ref().filter(|pattern| !pattern.is_match(text));
        if let Some(most) = self.length.1.filter(|most| length > *most) {
            causes.push(Cause::too_long(at(path), most));
        } else if let Some(least) = self.length.0.filter(|least| length < *least) {
            let detail = format!("{path} in body should be at least {least} chars long");
            causes.push(Cause::invalid(at(path), &json!(text), detail));
        } else if let Some(pattern) = pattern {
            let detail = format!("{path} in body should match '{pattern}'");
            causes.push(Cause::invalid(at(path), &json!(text), detail));
        }
        if let Some(format) = &self.format
            && !formats::fits(text, format)
        {
            causes.push(wrong_type(path, format, text));
        }
    }

    fn check_array(&self, items: &[Value], path: &mut String, causes: &mut Vec<Cause>) {
        if let Some(schema) = &self.items {
            for (index, item) in items.iter().enumerate() {
                within(path, &format!("[{index}]"), |path| schema.check(item, path, causes));
            }
        }
        let count = items.len() as u64;
        if let Some(least) = self.count.0.filter(|least| count < *least) {
            let detail = format!("{path} in body should have at least {least} items");
            causes.push(Cause::invalid(at(path), &json!(count), detail));
        }
        if let Some(most) = self.count.1.filter(|most| count > *most) {
            causes.push(Cause::too_many(at(path), items.len(), most));
        }
    }

    fn check_object(&self, map: &Map<String, Value>, path: &mut String, causes: &mut Vec<Cause>) {
        for (name, child) in map {
            if let Some(schema) = self.properties.get(name).or(self.additional.as_deref()) {
                let step = step(path, name);
                within(path, &step, |path| schema.check(child, path, causes));
            }
        }
        for name in self.required.iter().filter(|name| !map.contains_key(*name)) {
            causes.push(Cause::required(format!("{path}{}", step(path, name)), ""));
        }
    }
}

fn wrong_type(path: &str, wanted: &str, found: &str) -> Cause {
    let detail = format!("{path} in body must be of type {wanted}: {}", json!(found));
    Cause::wrong_type(at(path), &json!(found), detail)
}

/// Returns the path as Go writes it: `<nil>` for the whole object.
pub(super) fn at(path: &str) -> &str {
    if path.is_empty() { "<nil>" } else { path }
}

fn step(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!(".{name}") }
}

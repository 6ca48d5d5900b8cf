//! Validation: a fault names the field that kube-openapi's validator (`pkg/validation/validate`) names.

use super::prune::within;
use super::{Part, Schema, Type, formats, lists, numbers};
use crate::status::Cause;
use serde_json::{Map, Value, json};

/// Causes that a refusal names at most.
const ENOUGH: usize = 100;
/// Causes that keep CEL rules from being evaluated (apiextensions `hasBlockingErr`).
const BLOCKING: [&str; 5] = [
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
];
const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

impl Schema {
    /// Adds every way in which the object breaks its schema, CEL rules included, to what is wrong with it otherwise. `old` is
    /// the object that an update replaces: what was wrong with that already, and has not changed, is let through.
    pub(crate) fn validate(
        &self,
        part: Part,
        object: &Value,
        old: Option<&Value>,
        causes: &mut Vec<Cause>,
    ) {
        let known = old.map(|old| self.shape(part, old)).unwrap_or_default();
        causes.extend(self.shape(part, object).into_iter().filter(|cause| !known.contains(cause)));
        if self.has_rules {
            if causes.iter().any(|cause| BLOCKING.contains(&cause.reason)) {
                causes.push(Cause::invalid("<nil>", &Value::Null, UNCHECKED));
            } else {
                let known = old.map(|old| self.broken_rules(old, Some(old))).unwrap_or_default();
                let broken = self.broken_rules(object, old);
                causes.extend(broken.into_iter().filter(|cause| !known.contains(cause)));
            }
        }
        causes.truncate(ENOUGH);
    }

    /// Everything that makes a default invalid by its own schema.
    pub(crate) fn faults_of_default(&self, default: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        self.check(default, &mut String::new(), &mut causes);
        lists::check(self, default, &mut String::new(), &mut causes);
        if causes.is_empty() {
            causes.extend(self.broken_rules(default, None));
        }
        causes
    }

    fn shape(&self, part: Part, object: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        match (part, self.properties.get("status"), object.get("status")) {
            (Part::Status, Some(schema), Some(status)) => {
                schema.check(status, &mut String::new(), &mut causes);
                // The message has the path within the status; the field has the path within the object.
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
        lists::check(self, object, &mut String::new(), &mut causes);
        causes
    }

    fn check(&self, value: &Value, path: &mut String, causes: &mut Vec<Cause>) {
        if causes.len() > ENOUGH {
            return;
        }
        self.check_type(value, path, causes);
        if !value.is_null() {
            self.check_combinations(value, path, causes);
        }
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

    /// The names of the types that the schema allows.
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
        let choices = &self.constraints.enumeration;
        if !choices.is_empty() && !choices.iter().any(|choice| numbers::is_choice(value, choice)) {
            causes.push(Cause::unsupported(at(path), value, choices));
        }
    }

    fn check_string(&self, text: &str, path: &str, causes: &mut Vec<Cause>) {
        let constraints = &self.constraints;
        let length = text.chars().count() as u64;
        let pattern = constraints.pattern.as_ref().filter(|pattern| !pattern.is_match(text));
        if let Some(most) = constraints.length.most.filter(|most| length > *most) {
            causes.push(Cause::too_long(at(path), most));
        } else if let Some(least) = constraints.length.least.filter(|least| length < *least) {
            let detail = format!("{path} in body should be at least {least} chars long");
            causes.push(Cause::invalid(at(path), &json!(text), detail));
        } else if let Some(pattern) = pattern {
            let detail = format!("{path} in body should match '{pattern}'");
            causes.push(Cause::invalid(at(path), &json!(text), detail));
        }
        if let Some(format) = &constraints.format
            && !formats::has(text, format)
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
        let constraints = &self.constraints;
        let count = items.len() as u64;
        if let Some(least) = constraints.items.least.filter(|least| count < *least) {
            let detail = format!("{path} in body should have at least {least} items");
            causes.push(Cause::invalid(at(path), &json!(count), detail));
        }
        if let Some(most) = constraints.items.most.filter(|most| count > *most) {
            causes.push(Cause::too_many(at(path), items.len(), most));
        }
        if constraints.unique_items && lists::repeated(items.iter()).next().is_some() {
            let detail = format!("{path} in body shouldn't contain duplicates");
            causes.push(Cause::invalid(at(path), &json!(""), detail));
        }
    }

    fn check_object(&self, map: &Map<String, Value>, path: &mut String, causes: &mut Vec<Cause>) {
        let constraints = &self.constraints;
        let count = map.len() as u64;
        if let Some(least) = constraints.properties.least.filter(|least| count < *least) {
            let detail = format!("{path} in body should have at least {least} properties");
            causes.push(Cause::invalid(at(path), &json!(count), detail));
        }
        if let Some(most) = constraints.properties.most.filter(|most| count > *most) {
            causes.push(Cause::too_many(at(path), map.len(), most));
        }
        for (name, child) in map {
            if let Some(schema) = self.properties.get(name).or(self.additional.as_deref()) {
                let step = step(path, name);
                within(path, &step, |path| schema.check(child, path, causes));
            }
        }
        for name in constraints.required.iter().filter(|name| !map.contains_key(*name)) {
            causes.push(Cause::required(join(path, name), ""));
        }
        if self.embedded_resource {
            check_embedded(map, path, causes);
        }
    }

    fn check_combinations(&self, value: &Value, path: &mut String, causes: &mut Vec<Cause>) {
        let constraints = &self.constraints;
        let mut faults = |schema: &Self| {
            let mut found = Vec::new();
            schema.check(value, path, &mut found);
            found
        };
        let mut of_each = |schemas: &[Self]| schemas.iter().map(&mut faults).collect::<Vec<_>>();
        let any = of_each(&constraints.any_of);
        let one = of_each(&constraints.one_of);
        let all = of_each(&constraints.all_of);
        let not = constraints.not.as_ref().is_some_and(|schema| faults(schema).is_empty());
        let valid = |each: &[Vec<Cause>]| each.iter().filter(|found| found.is_empty()).count();
        if !any.is_empty() && valid(&any) == 0 {
            causes.push(unlocated(path, "must be valid by at least one schema of anyOf"));
            causes.extend(any.into_iter().next().unwrap_or_default());
        }
        let valid_by = valid(&one);
        if !one.is_empty() && valid_by != 1 {
            causes.push(unlocated(path, "must be valid by exactly one schema of oneOf"));
            causes.extend(one.into_iter().next().filter(|_| valid_by == 0).unwrap_or_default());
        }
        if valid(&all) < all.len() {
            causes.push(unlocated(path, "must be valid by all schemas of allOf"));
            causes.extend(all.into_iter().flatten());
        }
        if not {
            causes.push(unlocated(path, "must not be valid by the schema of not"));
        }
    }
}

/// kube-apiserver gives no field here; the message has the path.
fn unlocated(path: &str, what: &str) -> Cause {
    Cause::invalid("<nil>", &json!(""), format!("{} {what}", json!(path)))
}

fn wrong_type(path: &str, wanted: &str, found: &str) -> Cause {
    let detail = format!("{path} in body must be of type {wanted}: {}", json!(found));
    Cause::wrong_type(at(path), &json!(found), detail)
}

fn check_embedded(map: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    for field in ["apiVersion", "kind"] {
        let place = join(path, field);
        match map.get(field) {
            None => causes.push(Cause::required(place, "")),
            Some(Value::String(text)) if text.is_empty() => {
                causes.push(Cause::invalid(place, &json!(text), "must not be empty"));
            }
            Some(Value::String(_)) => {}
            Some(other) => causes.push(Cause::invalid(place, other, "must be a string")),
        }
    }
}

/// The whole object has no path; this is how Go writes that.
pub(super) fn at(path: &str) -> &str {
    if path.is_empty() { "<nil>" } else { path }
}

pub(super) fn step(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!(".{name}") }
}

fn join(path: &str, name: &str) -> String {
    format!("{path}{}", step(path, name))
}

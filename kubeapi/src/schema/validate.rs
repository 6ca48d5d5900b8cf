//! Validation, with the order and the words of kube-openapi's validator (`pkg/validation/validate`) and of apiextensions around
//! it: clients show these words to people, and some tell faults apart by them.

use super::prune::within;
use super::{Part, Schema, Type, formats, lists, numbers};
use crate::status::Cause;
use serde_json::{Map, Value, json};

/// More wrong fields than this help nobody.
const ENOUGH: usize = 100;
/// Faults that leave an object in no state to ask its rules about (apiextensions `hasBlockingErr`).
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

    /// What the schema of a default has against it, fields unknown to it among that.
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
                // The words tell the path within the status.
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

    fn broken_rules(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        self.check_rules(object, old, &mut String::new(), &mut causes);
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
        let format = self.constraints.format.as_deref();
        let Some(types) = self.types() else { return };
        let found = crate::object::type_name(value);
        let numeric = self.allows("integer") || self.allows("number");
        let fits = self.allows(found)
            || (found == "number" && self.allows("integer") && numbers::is_whole(value))
            || (found == "integer" && self.allows("number"));
        match value {
            Value::Null if self.nullable => {}
            Value::Null => causes.push(wrong_type(path, types, found)),
            // A format stands for the type of what could carry it.
            Value::String(_) | Value::Array(_) if format.is_some() && !numeric => {}
            Value::String(_) | Value::Array(_) if !fits => {
                causes.push(wrong_type(path, types, found));
            }
            Value::String(_) | Value::Array(_) => {}
            Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                if fits {
                    return;
                }
                let implied = numbers::implied_format(value);
                match format {
                    Some(format) if format != implied => {
                        causes.push(wrong_type(path, format, implied));
                    }
                    _ => causes.push(wrong_type(path, types, found)),
                }
            }
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
        let mut say = Vec::new();
        let any: Vec<Vec<Cause>> = constraints.any_of.iter().map(&mut faults).collect();
        if !any.is_empty() && any.iter().all(|found| !found.is_empty()) {
            say.push((
                "must validate at least one schema (anyOf)".to_owned(),
                any.first().cloned(),
            ));
        }
        let one: Vec<Vec<Cause>> = constraints.one_of.iter().map(&mut faults).collect();
        let matching = one.iter().filter(|found| found.is_empty()).count();
        if !one.is_empty() && matching != 1 {
            let (how, shown) = match matching {
                0 => ("Found none valid".to_owned(), one.first().cloned()),
                many => (format!("Found {many} valid alternatives"), None),
            };
            say.push((format!("must validate one and only one schema (oneOf). {how}"), shown));
        }
        let all: Vec<Vec<Cause>> = constraints.all_of.iter().map(&mut faults).collect();
        let none = if all.iter().all(|found| !found.is_empty()) { ". None validated" } else { "" };
        let refused = all.iter().any(|found| !found.is_empty());
        let not = constraints.not.as_ref().is_some_and(|schema| faults(schema).is_empty());
        for (what, shown) in say {
            causes.push(unlocated(path, &what));
            causes.extend(shown.into_iter().flatten());
        }
        causes.extend(all.into_iter().flatten());
        if refused {
            causes.push(unlocated(path, &format!("must validate all the schemas (allOf){none}")));
        }
        if not {
            causes.push(unlocated(path, "must not validate the schema (not)"));
        }
    }

    fn check_rules(
        &self,
        value: &Value,
        old: Option<&Value>,
        path: &mut String,
        causes: &mut Vec<Cause>,
    ) {
        if value.is_null() {
            return;
        }
        // A null before is nothing that a value could have changed from.
        let old = old.filter(|old| !old.is_null());
        for rule in &self.rules {
            causes.extend(rule.check(self, value, old, path));
        }
        match value {
            Value::Object(map) => {
                for (name, child) in map {
                    let before = old.and_then(|old| old.get(name));
                    let (schema, step) = match self.properties.get(name) {
                        Some(schema) => (Some(schema), step(path, name)),
                        None => (self.additional.as_deref(), format!("[{name}]")),
                    };
                    if let Some(schema) = schema {
                        within(path, &step, |path| schema.check_rules(child, before, path, causes));
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for (index, item) in items.iter().enumerate() {
                    let before = lists::counterpart(self, item, old);
                    within(path, &format!("[{index}]"), |path| {
                        schema.check_rules(item, before, path, causes);
                    });
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Null => {}
        }
    }
}

/// A fault that names its place in its words alone.
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

fn step(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!(".{name}") }
}

/// What Go says of a value of another type than its place has.
fn misread(found: &str, path: &str, wanted: Type) -> String {
    format!("json: cannot unmarshal {found} into {path} of type {}", wanted.name())
}

fn join(path: &str, name: &str) -> String {
    format!("{path}{}", step(path, name))
}

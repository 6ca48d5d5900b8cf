//! Validation, with the words of kube-openapi's validator.

use super::prune::within;
use super::{ListType, Schema, Type};
use crate::status::Cause;
use serde_json::{Map, Value, json};
use std::cmp::Ordering;

/// More wrong fields than this help nobody.
const ENOUGH: usize = 100;

impl Schema {
    /// Every way in which the object breaks its schema, CEL rules included. `old` is the object that an update replaces.
    ///
    /// Rules run only on what has the right shape, as in kube-apiserver.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        self.check(object, &mut String::new(), &mut causes);
        if causes.is_empty() {
            self.check_rules(object, old, &mut String::new(), &mut causes);
        }
        causes.truncate(ENOUGH);
        causes
    }

    fn check(&self, value: &Value, path: &mut String, causes: &mut Vec<Cause>) {
        if causes.len() > ENOUGH || (value.is_null() && self.nullable) {
            return;
        }
        if !self.check_type(value, path, causes) {
            return;
        }
        let constraints = &self.constraints;
        if !constraints.enumeration.is_empty() && !constraints.enumeration.contains(value) {
            causes.push(Cause::unsupported(path.as_str(), value, &constraints.enumeration));
        }
        match value {
            Value::String(text) => self.check_string(text, value, path, causes),
            Value::Number(number) => {
                self.check_number(number.as_f64().unwrap_or_default(), value, path, causes);
            }
            Value::Array(items) => self.check_array(items, value, path, causes),
            Value::Object(map) => self.check_object(map, value, path, causes),
            Value::Null | Value::Bool(_) => {}
        }
        self.check_combinations(value, path, causes);
    }

    fn check_type(&self, value: &Value, path: &str, causes: &mut Vec<Cause>) -> bool {
        if self.int_or_string {
            let fits = value.is_string() || is_integer(value);
            if !fits {
                let detail = format!("{path} in body must be of type integer,string: {value}");
                causes.push(Cause::wrong_type(path, value, detail));
            }
            return fits;
        }
        let Some(kind) = self.kind else { return true };
        let fits = match kind {
            Type::Object => value.is_object(),
            Type::Array => value.is_array(),
            Type::String => value.is_string(),
            Type::Integer => is_integer(value),
            Type::Number => value.is_number(),
            Type::Boolean => value.is_boolean(),
        };
        if !fits {
            let shown = json!(crate::object::type_name(value));
            let detail = format!("{path} in body must be of type {}: {shown}", kind.name());
            causes.push(Cause::wrong_type(path, &shown, detail));
        }
        fits
    }

    fn check_string(&self, text: &str, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        let constraints = &self.constraints;
        match constraints.length.place(text.chars().count()) {
            Ordering::Less => {
                let least = constraints.length.least.unwrap_or_default();
                let detail = format!("{path} in body should be at least {least} chars long");
                causes.push(Cause::invalid(path, value, detail));
            }
            Ordering::Greater => {
                causes.push(Cause::too_long(path, constraints.length.most.unwrap_or_default()));
            }
            Ordering::Equal => {}
        }
        if let Some(pattern) = &constraints.pattern
            && !pattern.is_match(text)
        {
            causes.push(Cause::invalid(
                path,
                value,
                format!("{path} in body should match '{pattern}'"),
            ));
        }
        if let Some(format) = &constraints.format
            && !text_has_format(text, format)
        {
            causes.push(Cause::invalid(
                path,
                value,
                format!("{path} in body must be of type {format}: {value}"),
            ));
        }
    }

    fn check_number(&self, number: f64, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        let constraints = &self.constraints;
        let mut refuse = |detail: String| causes.push(Cause::invalid(path, value, detail));
        match constraints.minimum {
            Some((least, true)) if number <= least => {
                refuse(format!("{path} in body should be greater than {least}"));
            }
            Some((least, false)) if number < least => {
                refuse(format!("{path} in body should be greater than or equal to {least}"));
            }
            _ => {}
        }
        match constraints.maximum {
            Some((most, true)) if number >= most => {
                refuse(format!("{path} in body should be less than {most}"));
            }
            Some((most, false)) if number > most => {
                refuse(format!("{path} in body should be less than or equal to {most}"));
            }
            _ => {}
        }
        if let Some(factor) = constraints.multiple_of
            && (number / factor).fract() != 0.0
        {
            refuse(format!("{path} in body should be a multiple of {factor}"));
        }
        if let Some(format) = &constraints.format
            && !number_has_format(value, format)
        {
            refuse(format!("{path} in body must be of type {format}: {value}"));
        }
    }

    fn check_array(
        &self,
        items: &[Value],
        value: &Value,
        path: &mut String,
        causes: &mut Vec<Cause>,
    ) {
        let constraints = &self.constraints;
        match constraints.items.place(items.len()) {
            Ordering::Less => {
                let least = constraints.items.least.unwrap_or_default();
                let detail = format!("{path} in body should have at least {least} items");
                causes.push(Cause::invalid(path.as_str(), &json!(items.len()), detail));
            }
            Ordering::Greater => {
                let most = constraints.items.most.unwrap_or_default();
                causes.push(Cause::too_many(path.as_str(), items.len(), most));
                return;
            }
            Ordering::Equal => {}
        }
        if constraints.unique_items && first_duplicate(items.iter()).is_some() {
            causes.push(Cause::invalid(
                path.as_str(),
                value,
                format!("{path} in body shouldn't contain duplicates"),
            ));
        }
        self.check_list_type(items, path, causes);
        let Some(schema) = &self.items else { return };
        for (index, item) in items.iter().enumerate() {
            within(path, &format!("[{index}]"), |path| schema.check(item, path, causes));
        }
    }

    fn check_list_type(&self, items: &[Value], path: &mut String, causes: &mut Vec<Cause>) {
        let duplicate = match &self.constraints.list_type {
            ListType::Atomic => return,
            ListType::Set => {
                first_duplicate(items.iter()).map(|index| (index, items.get(index).cloned()))
            }
            ListType::Map(keys) => {
                let key_of = |item: &Value| -> Value {
                    keys.iter()
                        .filter_map(|key| Some((key.clone(), item.get(key)?.clone())))
                        .collect::<Map<_, _>>()
                        .into()
                };
                let identities: Vec<Value> = items.iter().map(key_of).collect();
                first_duplicate(identities.iter())
                    .map(|index| (index, identities.get(index).cloned()))
            }
        };
        if let Some((index, Some(value))) = duplicate {
            causes.push(Cause::duplicate(format!("{path}[{index}]"), &value));
        }
    }

    fn check_object(
        &self,
        map: &Map<String, Value>,
        value: &Value,
        path: &mut String,
        causes: &mut Vec<Cause>,
    ) {
        let constraints = &self.constraints;
        match constraints.properties.place(map.len()) {
            Ordering::Less => {
                let least = constraints.properties.least.unwrap_or_default();
                causes.push(Cause::invalid(
                    path.as_str(),
                    value,
                    format!("{path} in body should have at least {least} properties"),
                ));
            }
            Ordering::Greater => {
                let most = constraints.properties.most.unwrap_or_default();
                causes.push(Cause::too_many(path.as_str(), map.len(), most));
            }
            Ordering::Equal => {}
        }
        for name in &constraints.required {
            if !map.contains_key(name) {
                causes.push(Cause::required(join(path, name), ""));
            }
        }
        for (name, child) in map {
            if let Some(schema) = self.properties.get(name).or(self.additional.as_deref()) {
                let step = step(path, name);
                within(path, &step, |path| schema.check(child, path, causes));
            }
        }
        if self.embedded_resource {
            check_embedded(map, path, causes);
        }
    }

    fn check_combinations(&self, value: &Value, path: &mut String, causes: &mut Vec<Cause>) {
        let constraints = &self.constraints;
        let mut fits = |schema: &Self| {
            let mut found = Vec::new();
            schema.check(value, path, &mut found);
            found
        };
        let mut refusals: Vec<&str> = Vec::new();
        let all: Vec<Vec<Cause>> = constraints.all_of.iter().map(&mut fits).collect();
        if all.iter().any(|found| !found.is_empty()) {
            refusals.push("must validate all the schemas (allOf)");
        }
        if !constraints.any_of.is_empty()
            && !constraints.any_of.iter().any(|schema| fits(schema).is_empty())
        {
            refusals.push("must validate at least one schema (anyOf)");
        }
        let matching = constraints.one_of.iter().filter(|schema| fits(schema).is_empty()).count();
        if !constraints.one_of.is_empty() && matching != 1 {
            refusals.push("must validate one and only one schema (oneOf)");
        }
        if constraints.not.as_ref().is_some_and(|schema| fits(schema).is_empty()) {
            refusals.push("must not validate the schema (not)");
        }
        for refusal in refusals {
            causes.push(Cause::invalid(path.as_str(), value, format!("{path} in body {refusal}")));
        }
        causes.extend(all.into_iter().flatten());
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
        for rule in &self.rules {
            causes.extend(rule.check(self, value, old, path));
        }
        match value {
            Value::Object(map) => {
                for (name, child) in map {
                    if let Some(schema) = self.properties.get(name).or(self.additional.as_deref()) {
                        let before = old.and_then(|old| old.get(name));
                        let step = step(path, name);
                        within(path, &step, |path| schema.check_rules(child, before, path, causes));
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for (index, item) in items.iter().enumerate() {
                    let before = self.correlate(item, old);
                    within(path, &format!("[{index}]"), |path| {
                        schema.check_rules(item, before, path, causes);
                    });
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Null => {}
        }
    }

    /// The element of the old list that is "the same" as `item`; only map lists can tell.
    fn correlate<'a>(&self, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
        let ListType::Map(keys) = &self.constraints.list_type else { return None };
        let same = |other: &&Value| keys.iter().all(|key| other.get(key) == item.get(key));
        old?.as_array()?.iter().find(same)
    }
}

fn check_embedded(map: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    for field in ["apiVersion", "kind"] {
        match map.get(field) {
            Some(Value::String(text)) if !text.is_empty() => {}
            _ => causes.push(Cause::required(join(path, field), "must not be empty")),
        }
    }
}

fn step(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!(".{name}") }
}

fn join(path: &str, name: &str) -> String {
    format!("{path}{}", step(path, name))
}

/// JSON has one number type: 1.0 is the integer 1.
fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// The index of the first item that equals an earlier one.
fn first_duplicate<'a>(items: impl Iterator<Item = &'a Value>) -> Option<usize> {
    let mut seen = std::collections::HashSet::new();
    items.map(Value::to_string).position(|item| !seen.insert(item))
}

/// Formats of strings that kube-apiserver enforces; the others it ignores, and so do we.
fn text_has_format(text: &str, format: &str) -> bool {
    match format {
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "uuid" => uuid::Uuid::try_parse(text).is_ok(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "byte" => base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).is_ok(),
        _ => true,
    }
}

fn number_has_format(value: &Value, format: &str) -> bool {
    match format {
        "int32" => {
            value.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
                || !value.is_i64() && !value.is_u64()
        }
        "int64" => !value.is_u64() || value.is_i64(),
        _ => true,
    }
}

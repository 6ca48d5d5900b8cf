//! Lists that are sets or maps (apiextensions `listtype`).

use super::prune::within;
use super::{ListType, Schema, validate};
use crate::status::Cause;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Adds what comes twice in a set, or in the keys of a map.
pub(super) fn check(schema: &Schema, value: &Value, path: &mut String, causes: &mut Vec<Cause>) {
    match value {
        Value::Object(map) => {
            for (name, child) in map {
                let (schema, step) = match (schema.properties.get(name), path.is_empty()) {
                    (Some(schema), true) => (Some(schema), name.clone()),
                    (Some(schema), false) => (Some(schema), format!(".{name}")),
                    (None, _) => (schema.additional.as_deref(), format!("[{name}]")),
                };
                if let Some(schema) = schema {
                    within(path, &step, |path| check(schema, child, path, causes));
                }
            }
        }
        Value::Array(items) => {
            check_list(&schema.constraints.list_type, items, path, causes);
            let Some(schema) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                within(path, &format!("[{index}]"), |path| check(schema, item, path, causes));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_list(kind: &ListType, items: &[Value], path: &str, causes: &mut Vec<Cause>) {
    let mut twice = |index: usize, value: &Value| {
        causes.push(Cause::duplicate(format!("{}[{index}]", validate::at(path)), value));
    };
    match kind {
        ListType::Atomic => {}
        ListType::Set => repeated(items.iter()).for_each(|index| twice(index, &items[index])),
        ListType::Map(keys) => {
            let odd = items.iter().position(|item| !item.is_object() && !item.is_null());
            if let Some(index) = odd {
                let detail = "must be an object for an array of list-type map";
                causes.push(Cause::invalid(format!("{path}[{index}]"), &items[index], detail));
                return;
            }
            let keys: Vec<Value> = items.iter().map(|item| identity(item, keys)).collect();
            repeated(keys.iter()).for_each(|index| twice(index, &keys[index]));
        }
    }
}

/// The keys of an element of a map.
fn identity(item: &Value, keys: &[String]) -> Value {
    let present = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    present.collect::<Map<_, _>>().into()
}

/// Where an item comes the second time; a third time is not worth telling.
pub(super) fn repeated<'a>(items: impl Iterator<Item = &'a Value>) -> impl Iterator<Item = usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let second = items.enumerate().filter_map(move |(index, item)| {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        (*times == 2).then_some(index)
    });
    second.collect::<Vec<_>>().into_iter()
}

/// The element of the old list that is "the same" as `item`; only maps can tell.
pub(super) fn counterpart<'a>(
    schema: &Schema,
    item: &Value,
    old: Option<&'a Value>,
) -> Option<&'a Value> {
    let ListType::Map(keys) = &schema.constraints.list_type else { return None };
    let same = |other: &&Value| keys.iter().all(|key| other.get(key) == item.get(key));
    old?.as_array()?.iter().find(same)
}

//! JSON patch (RFC 6902), as lenient as the library of kube-apiserver (evanphx/json-patch v4): a member that is not there
//! counts as null, but for `remove` and `move`; a place below something that is not there is refused.

use crate::object::{self, DEEPEST};
use crate::request::BODY_LIMIT;
use crate::status::Status;
use serde_json::{Map, Value};

/// Operations of one JSON patch (apiserver `maxJSONPatchOperations`).
const OPERATIONS: usize = 10_000;

/// The operations of a patch.
///
/// # Errors
/// 400 for a body that is no list of operations, 413 for too many.
pub(super) fn read(body: Value) -> Result<Vec<Map<String, Value>>, Status> {
    let malformed = |what: &str| Status::bad_request(format!("error decoding patch: {what}"));
    let items = match body {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        _ => return Err(malformed("it must be a list of operations")),
    };
    if items.len() > OPERATIONS {
        let count = items.len();
        let message =
            format!("The allowed maximum operations in a JSON patch is {OPERATIONS}, got {count}");
        return Err(Status::new(413, "RequestEntityTooLarge", message));
    }
    let mut operations = Vec::new();
    for item in items {
        let operation = match item {
            Value::Object(operation) => operation,
            Value::Null => Map::new(),
            _ => return Err(malformed("an operation must be an object")),
        };
        let odd = ["op", "path", "from"].into_iter().find(|name| {
            operation.get(*name).is_some_and(|value| !value.is_string() && !value.is_null())
        });
        if let Some(name) = odd {
            return Err(malformed(&format!("{name} must be a string")));
        }
        operations.push(operation);
    }
    Ok(operations)
}

/// Applies the operations in order. What `copy` may add up to is bounded, and how deep a value may come to lie: a few
/// hundred bytes of patch could otherwise ask for any amount of memory.
///
/// # Errors
/// 422 for an operation that does not fit the object.
pub(super) fn apply(object: &mut Value, operations: &[Map<String, Value>]) -> Result<(), Status> {
    let mut copied = 0;
    for operation in operations {
        let text = |name: &str| operation.get(name).and_then(Value::as_str);
        let value = operation.get("value").unwrap_or(&Value::Null);
        let from = text("from").and_then(|from| find(object, from)?.get());
        let moves = matches!(text("op"), Some("copy" | "move"));
        let moved = if moves { from } else { Some(value.clone()) };
        let depth = moved.as_ref().map_or(0, |value| object::depth(value, DEEPEST + 1));
        if text("op") == Some("copy") {
            copied += moved.as_ref().map_or(0, |value| value.to_string().len());
        }
        let steps = text("path").map_or(0, |path| path.matches('/').count());
        let fits = copied <= BODY_LIMIT && steps + depth <= DEEPEST;
        if !fits || step(object, operation, value, moved).is_none() {
            // Which operation it was kube-apiserver does not tell either.
            return Err(Status::unprocessable(
                "the server rejected our request due to an error in our request",
            ));
        }
    }
    Ok(())
}

/// One operation; none where it does not fit.
fn step(
    object: &mut Value,
    operation: &Map<String, Value>,
    value: &Value,
    moved: Option<Value>,
) -> Option<()> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let path = text("path")?;
    match text("op").unwrap_or_default() {
        "add" => find(object, path)?.add(value.clone()),
        "remove" => find(object, path)?.remove().map(drop),
        "replace" if path.is_empty() => {
            if !value.is_object() && !value.is_array() {
                return None;
            }
            object.clone_from(value);
            Some(())
        }
        "replace" => find(object, path)?.set(value.clone()),
        "test" => {
            let found =
                if path.is_empty() { Some(object.clone()) } else { find(object, path)?.get() };
            if found? == *value { Some(()) } else { None }
        }
        "copy" => find(object, path)?.add(moved?),
        "move" => {
            let from = text("from")?;
            let value = find(object, from)?.remove()?;
            find(object, path)?.add(value)
        }
        _ => None,
    }
}

/// A member of an object, or an element of a list.
enum Place<'a> {
    Member(&'a mut Map<String, Value>, String),
    Element(&'a mut Vec<Value>, String),
}

/// The place that a path leads to, whether or not there is something; none below what is neither object nor list.
fn find<'a>(object: &'a mut Value, path: &str) -> Option<Place<'a>> {
    let mut parts: Vec<String> =
        path.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    let last = parts.pop()?;
    let mut at = object;
    for part in parts {
        at = match at {
            Value::Object(map) => map.get_mut(&part)?,
            Value::Array(items) => {
                let index = index(&part, items.len())?;
                items.get_mut(index)?
            }
            _ => return None,
        };
    }
    match at {
        Value::Object(map) => Some(Place::Member(map, last)),
        Value::Array(items) => Some(Place::Element(items, last)),
        _ => None,
    }
}

/// Below zero counts from the end.
fn index(text: &str, length: usize) -> Option<usize> {
    let index: i64 = text.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { index + length } else { index }).ok()
}

impl Place<'_> {
    fn get(self) -> Option<Value> {
        match self {
            Self::Member(map, name) => Some(map.get(&name).cloned().unwrap_or_default()),
            Self::Element(items, text) => items.get(index(&text, items.len())?).cloned(),
        }
    }

    fn set(self, value: Value) -> Option<()> {
        match self {
            Self::Member(map, name) => drop(map.insert(name, value)),
            Self::Element(items, text) => {
                let index = index(&text, items.len())?;
                *items.get_mut(index)? = value;
            }
        }
        Some(())
    }

    fn add(self, value: Value) -> Option<()> {
        match self {
            Self::Member(..) => self.set(value),
            Self::Element(items, text) if text == "-" => {
                items.push(value);
                Some(())
            }
            Self::Element(items, text) => {
                let index = index(&text, items.len() + 1)?;
                if index > items.len() {
                    return None;
                }
                items.insert(index, value);
                Some(())
            }
        }
    }

    fn remove(self) -> Option<Value> {
        match self {
            Self::Member(map, name) => map.remove(&name),
            Self::Element(items, text) => {
                let index = index(&text, items.len()).filter(|index| *index < items.len());
                index.map(|index| items.remove(index))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_absent_counts_as_null() {
        let cases = [
            (
                json!([{"op": "copy", "from": "/x", "path": "/y"}]),
                Some(json!({"a": [1, 2], "y": null})),
            ),
            (
                json!([{"op": "replace", "path": "/b", "value": 1}]),
                Some(json!({"a": [1, 2], "b": 1})),
            ),
            (json!([{"op": "test", "path": "/b"}]), Some(json!({"a": [1, 2]}))),
            (json!([{"op": "add", "path": "/b"}]), Some(json!({"a": [1, 2], "b": null}))),
            (json!([{"op": "remove", "path": "/a/-1"}]), Some(json!({"a": [1]}))),
            (json!([{"op": "add", "path": "/a/-", "value": 3}]), Some(json!({"a": [1, 2, 3]}))),
            (json!([{"op": "remove", "path": "/b"}]), None),
            (json!([{"op": "move", "from": "/b", "path": "/c"}]), None),
            (json!([{"op": "add", "path": "", "value": {}}]), None),
            (json!([{"op": "replace", "path": "/a/2", "value": 3}]), None),
            (json!([{"op": "add", "path": "/b/c", "value": 3}]), None),
        ];
        for (patch, expected) in cases {
            let mut object = json!({"a": [1, 2]});
            let applied = apply(&mut object, &read(patch.clone()).unwrap());
            assert_eq!(applied.is_ok().then_some(object), expected, "{patch}");
        }
    }
}

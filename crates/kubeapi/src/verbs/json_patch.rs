//! JSON patch (RFC 6902) with limits: without limits a patch of a few hundred bytes could use any amount of memory.

use crate::status::Status;
use crate::value::{self, BODY_LIMIT, DEEPEST};
use json_patch::{AddOperation, PatchOperation, ReplaceOperation};
use serde_json::Value;

/// Largest number of operations in a JSON patch (apiserver `maxJSONPatchOperations`).
const OPERATIONS: usize = 10_000;

/// Reads the operations of a patch. Answers 400 for a body that is no list of operations, 413 for too many.
pub(super) fn read(body: Value) -> Result<Vec<Value>, Status> {
    let malformed = || Status::bad_request("error decoding patch: it must be a list of operations");
    let operations: Vec<Value> = serde_json::from_value(body).map_err(|_| malformed())?;
    let count = operations.len();
    if count > OPERATIONS {
        let message =
            format!("The allowed maximum operations in a JSON patch is {OPERATIONS}, got {count}");
        return Err(Status::new(413, "RequestEntityTooLarge", message));
    }
    if operations.iter().all(Value::is_object) { Ok(operations) } else { Err(malformed()) }
}

/// Applies the operations in order. Answers 422 for an operation that does not fit the object, or that makes it too
/// large or too deep.
pub(super) fn apply(object: &mut Value, operations: &[Value]) -> Result<(), Status> {
    let mut copied = 0;
    for operation in operations {
        let refused = |why: &str| Status::unprocessable(format!("{operation}: {why}"));
        let read = serde_json::from_value(operation.clone());
        let operation = read.map_err(|error| refused(&error.to_string()))?;
        let Some(operation) = lenient(object, operation) else { continue };
        let depth = |value: &Value| value::depth(value, DEEPEST + 1);
        let depth = match &operation {
            PatchOperation::Add(add) => depth(&add.value),
            PatchOperation::Replace(replace) => depth(&replace.value),
            PatchOperation::Move(moved) => moved.from.resolve(object).map_or(0, depth),
            PatchOperation::Copy(copy) => copy.from.resolve(object).map_or(0, |value| {
                copied += value.to_string().len();
                depth(value)
            }),
            PatchOperation::Remove(_) | PatchOperation::Test(_) => 0,
        };
        if copied > BODY_LIMIT || operation.path().count() + depth > DEEPEST {
            return Err(refused("the object becomes too large or too deep"));
        }
        json_patch::patch(object, &[operation]).map_err(|error| refused(&error.to_string()))?;
    }
    Ok(())
}

/// Treats an absent member as null, as kube-apiserver does: a patch may replace or copy an absent member, or
/// test it for null.
fn lenient(object: &Value, operation: PatchOperation) -> Option<PatchOperation> {
    let path = match &operation {
        PatchOperation::Copy(copy) => &*copy.from,
        other => other.path(),
    };
    let parent = path.parent().and_then(|parent| parent.resolve(object).ok());
    if path.resolve(object).is_ok() || !parent.is_some_and(Value::is_object) {
        return Some(operation);
    }
    match operation {
        PatchOperation::Copy(copy) => {
            Some(PatchOperation::Add(AddOperation { path: copy.path, value: Value::Null }))
        }
        PatchOperation::Replace(ReplaceOperation { path, value }) => {
            Some(PatchOperation::Add(AddOperation { path, value }))
        }
        PatchOperation::Test(test) if test.value.is_null() => None,
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_is_applied_as_a_whole_or_refused() {
        let cases = [
            (json!([{"op": "test", "path": "/a/0", "value": 1}]), Some(json!({"a": [1, 2]}))),
            (json!([{"op": "add", "path": "/a/-", "value": 3}]), Some(json!({"a": [1, 2, 3]}))),
            (
                json!([{"op": "copy", "from": "/a", "path": "/b"}]),
                Some(json!({"a": [1, 2], "b": [1, 2]})),
            ),
            (
                json!([{"op": "replace", "path": "/b", "value": 1}]),
                Some(json!({"a": [1, 2], "b": 1})),
            ),
            (json!([{"op": "test", "path": "/b", "value": null}]), Some(json!({"a": [1, 2]}))),
            (json!([{"op": "remove", "path": "/b"}]), None),
            (
                json!([{"op": "copy", "from": "/x", "path": "/y"}]),
                Some(json!({"a": [1, 2], "y": null})),
            ),
            (json!([{"op": "jump"}]), None),
            (json!([{"op": "test", "path": "/a/0", "value": 2}]), None),
            (json!([{"op": "move", "from": "/b", "path": "/c"}]), None),
            (json!([{"op": "add", "path": "/b/c", "value": 3}]), None),
        ];
        for (patch, expected) in cases {
            let mut object = json!({"a": [1, 2]});
            let applied = apply(&mut object, &read(patch.clone()).unwrap());
            assert_eq!(applied.is_ok().then_some(object), expected, "{patch}");
        }
    }

    #[test]
    fn a_patch_that_copies_too_much_or_has_too_many_operations_is_refused() {
        let doubled: Vec<Value> =
            (0..64).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/-"})).collect();
        assert_eq!(
            apply(&mut json!({"a": ["x"]}), &read(json!(doubled)).unwrap()).unwrap_err().code,
            422
        );
        let many = vec![json!({"op": "remove", "path": "/a"}); OPERATIONS + 1];
        assert_eq!(read(json!(many)).unwrap_err().code, 413);
    }
}

//! Pruning: fields that the schema does not name are not stored (structural pruning of apiextensions).

use super::Schema;
use serde_json::{Map, Value};

impl Schema {
    /// Drops every field that the schema does not specify and adds its path to `unknown`.
    pub(crate) fn prune(&self, body: &mut Map<String, Value>, unknown: &mut Vec<String>) {
        self.prune_map(body, &mut String::new(), unknown);
    }

    fn prune_value(&self, value: &mut Value, path: &mut String, unknown: &mut Vec<String>) {
        match value {
            Value::Object(map) => self.prune_map(map, path, unknown),
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    within(path, &format!("[{index}]"), |path| {
                        schema.prune_value(item, path, unknown);
                    });
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn prune_map(
        &self,
        map: &mut Map<String, Value>,
        path: &mut String,
        unknown: &mut Vec<String>,
    ) {
        map.retain(|key, value| {
            let step = if path.is_empty() { key.clone() } else { format!(".{key}") };
            let child = self.properties.get(key).or(self.additional.as_deref());
            within(path, &step, |path| match child {
                Some(schema) => {
                    schema.prune_value(value, path, unknown);
                    true
                }
                None if self.preserve_unknown => true,
                None => {
                    unknown.push(path.clone());
                    false
                }
            })
        });
    }
}

/// Runs `visit` with `step` appended to `path`.
pub(super) fn within<T>(path: &mut String, step: &str, visit: impl FnOnce(&mut String) -> T) -> T {
    let length = path.len();
    path.push_str(step);
    let result = visit(path);
    path.truncate(length);
    result
}

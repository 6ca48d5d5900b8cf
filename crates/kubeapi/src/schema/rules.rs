//! Evaluates the CEL rules of a schema at every node that has some.

use super::prune::within;
use super::{Schema, lists, validate::step};
use crate::status::Cause;
use serde_json::Value;

impl Schema {
    pub(super) fn broken_rules(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        self.check_rules(object, old, &mut String::new(), &mut causes);
        causes
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
        // An old value of null counts as absent: transition rules do not run.
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

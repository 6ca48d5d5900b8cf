//! Fills in defaults, and removes the nulls that Go clients send for unset fields.

use super::Schema;
use serde_json::{Map, Value};

impl Schema {
    /// Fills in defaults. Where the schema has no `nullable`, a null means an absent field: the default replaces the
    /// null, or without a default the null is dropped.
    pub(crate) fn fill(&self, body: &mut Map<String, Value>) {
        for (name, property) in &self.properties {
            let unset = match body.get(name) {
                None => true,
                Some(Value::Null) => !property.nullable,
                Some(_) => false,
            };
            if !unset {
                continue;
            }
            match &property.default {
                Some(default) => {
                    body.insert(name.clone(), default.clone());
                }
                None => {
                    body.remove(name);
                }
            }
        }
        if let Some(additional) = &self.additional {
            body.retain(|name, value| {
                self.properties.contains_key(name) || additional.fill_null(value)
            });
        }
        for (name, value) in body.iter_mut() {
            if let Some(schema) = self.properties.get(name).or(self.additional.as_deref()) {
                schema.fill_value(value);
            }
        }
    }

    /// Puts the default in the place of a null that the schema does not admit; returns false when there is no default.
    fn fill_null(&self, value: &mut Value) -> bool {
        if !value.is_null() || self.nullable {
            return true;
        }
        if let Some(default) = &self.default {
            value.clone_from(default);
        }
        self.default.is_some()
    }

    fn fill_value(&self, value: &mut Value) {
        match value {
            Value::Object(map) => self.fill(map),
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for item in items {
                    // A null item without a default stays in its list, because dropping it would shift the items after
                    // it. Validation then refuses the item.
                    schema.fill_null(item);
                    schema.fill_value(item);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

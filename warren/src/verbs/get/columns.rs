//! Columns of the server's Table (meta.k8s.io/v1). From a server that returns no Table, only the
//! objects' names are shown.

use serde_json::Value;

/// The columns to show.
#[derive(Debug)]
pub(super) struct Columns {
    wide: bool,
    namespaces: bool,
    /// Name and priority of each column, from the server; a watch sends the columns only once.
    definitions: Vec<(String, i64)>,
}

impl Columns {
    pub(super) fn new(wide: bool, namespaces: bool) -> Self {
        Self { wide, namespaces, definitions: Vec::new() }
    }

    /// Keeps the columns of an answer, if it has any.
    pub(super) fn learn(&mut self, answer: &Value) {
        let Some(definitions) = answer.get("columnDefinitions").and_then(Value::as_array) else {
            if self.definitions.is_empty() {
                self.definitions = vec![("Name".to_owned(), 0)];
            }
            return;
        };
        if definitions.is_empty() {
            return;
        }
        let read = |definition: &Value| {
            let name =
                definition.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            (name, definition.get("priority").and_then(Value::as_i64).unwrap_or_default())
        };
        self.definitions = definitions.iter().map(read).collect();
    }

    pub(super) fn header(&self) -> Vec<String> {
        let namespace = self.namespaces.then(|| "NAMESPACE".to_owned());
        let shown = self.definitions.iter().filter(|(_, priority)| self.shows(*priority));
        namespace.into_iter().chain(shown.map(|(name, _)| name.to_uppercase())).collect()
    }

    pub(super) fn rows(&self, answer: &Value) -> Vec<Vec<String>> {
        if !is_table(answer) {
            return objects(answer)
                .into_iter()
                .map(|object| self.row(object, &[name(object).into()]))
                .collect();
        }
        let rows =
            answer.get("rows").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        rows.iter()
            .map(|row| {
                let cells = row
                    .get("cells")
                    .and_then(Value::as_array)
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                self.row(row.get("object").unwrap_or(&Value::Null), cells)
            })
            .collect()
    }

    fn row(&self, object: &Value, cells: &[Value]) -> Vec<String> {
        let namespace = self.namespaces.then(|| text(object, "/metadata/namespace"));
        let shown =
            cells.iter().zip(&self.definitions).filter(|(_, (_, priority))| self.shows(*priority));
        namespace.into_iter().chain(shown.map(|(cell, _)| print(cell))).collect()
    }

    fn shows(&self, priority: i64) -> bool {
        self.wide || priority == 0
    }
}

/// Returns the names of all objects in an answer.
pub(super) fn names(answer: &Value) -> Vec<String> {
    objects(answer).into_iter().map(name).collect()
}

/// Returns the object itself, or the first object of a table.
pub(super) fn first_object(answer: &Value) -> &Value {
    if is_table(answer) { answer.pointer("/rows/0/object").unwrap_or(answer) } else { answer }
}

fn is_table(answer: &Value) -> bool {
    answer.get("kind").and_then(Value::as_str) == Some("Table")
}

fn objects(answer: &Value) -> Vec<&Value> {
    if is_table(answer) {
        let rows = answer.get("rows").and_then(Value::as_array);
        return rows.into_iter().flatten().filter_map(|row| row.get("object")).collect();
    }
    match answer.get("items").and_then(Value::as_array) {
        Some(items) => items.iter().collect(),
        None => vec![answer],
    }
}

fn name(object: &Value) -> String {
    text(object, "/metadata/name")
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn print(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => cell.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn table() -> Value {
        json!({"kind": "Table",
            "columnDefinitions": [{"name": "Name", "priority": 0}, {"name": "Ready", "priority": 0}, {"name": "Pod", "priority": 1}],
            "rows": [{"cells": ["a", true, "p"], "object": {"metadata": {"name": "a", "namespace": "n1", "resourceVersion": "4"}}},
                     {"cells": ["b", null, "q"], "object": {"metadata": {"name": "b", "namespace": "n2"}}}]})
    }

    #[test]
    fn columns_of_lower_priority_are_shown_only_when_wide() {
        let mut columns = Columns::new(false, true);
        columns.learn(&table());
        assert_eq!(columns.header(), ["NAMESPACE", "NAME", "READY"]);
        assert_eq!(columns.rows(&table()), [["n1", "a", "true"], ["n2", "b", ""]]);
        let mut wide = Columns::new(true, false);
        wide.learn(&table());
        assert_eq!(wide.header(), ["NAME", "READY", "POD"]);
    }

    #[test]
    fn a_watch_event_without_columns_keeps_the_known_columns() {
        let mut columns = Columns::new(false, false);
        columns.learn(&table());
        let mut event = table();
        event["columnDefinitions"] = json!([]);
        columns.learn(&event);
        assert_eq!(columns.rows(&event).len(), 2);
        assert_eq!(first_object(&event)["metadata"]["resourceVersion"], "4");
    }

    #[test]
    fn for_a_server_without_tables_only_names_are_shown() {
        let list = json!({"kind": "List", "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]});
        let mut columns = Columns::new(false, false);
        columns.learn(&list);
        assert_eq!(columns.rows(&list), [["a"], ["b"]]);
        assert_eq!(names(&list), ["a", "b"]);
        assert_eq!(names(&table()), ["a", "b"]);
    }
}

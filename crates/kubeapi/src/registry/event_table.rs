//! The table of Events. Its cells are computed, not selected by a path (kubernetes `printEvent`).

use super::Column;
use super::column::age;
use crate::object::Object;
use serde_json::{Value, json};

/// Name of each column, and whether only `-o wide` shows it.
const COLUMNS: [(&str, bool); 10] = [
    ("Last Seen", false),
    ("Type", false),
    ("Reason", false),
    ("Object", false),
    ("Subobject", true),
    ("Source", true),
    ("Message", false),
    ("First Seen", true),
    ("Count", true),
    ("Name", true),
];

pub(super) fn columns() -> Vec<Column> {
    let column = |(name, wide): (&str, bool)| Column {
        name: name.to_owned(),
        priority: i64::from(wide),
        format: if name == "Name" { "name" } else { "" }.to_owned(),
        ..Column::name_column()
    };
    COLUMNS.into_iter().map(column).collect()
}

/// Returns the cells of a stored Event. If a client created the Event over the events.k8s.io API, members of the core
/// API may be empty; the cells then show the newer members.
pub(crate) fn cells(event: &Object) -> Vec<Value> {
    let body = Value::Object(event.body.clone());
    let first = |pointers: &[&str]| {
        let texts = pointers.iter().filter_map(|pointer| body.pointer(pointer)?.as_str());
        texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned()
    };
    let joined = |first: String, between: &str, second: String| match &*second {
        "" => first,
        second => format!("{first}{between}{second}"),
    };
    let count = ["/series/count", "/count"].iter().find_map(|path| body.pointer(path)?.as_i64());
    let kind = first(&["/involvedObject/kind"]).to_lowercase();
    let source = first(&["/source/component", "/reportingComponent"]);
    vec![
        json!(age(&first(&["/series/lastObservedTime", "/lastTimestamp", "/eventTime"]))),
        json!(first(&["/type"])),
        json!(first(&["/reason"])),
        json!(joined(kind, "/", first(&["/involvedObject/name"]))),
        json!(first(&["/involvedObject/fieldPath"])),
        json!(joined(source, ", ", first(&["/source/host", "/reportingInstance"]))),
        json!(first(&["/message"]).trim()),
        json!(age(&first(&["/firstTimestamp", "/eventTime"]))),
        json!(count.unwrap_or(1)),
        json!(event.name()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_the_core_members_are_absent_the_cells_show_the_members_of_events_k8s_io() {
        let shown = |body: Value| {
            let mut cells = cells(&Object::from_value(body).unwrap());
            (cells.remove(8), cells.remove(5), cells.remove(3))
        };
        let old = json!({"metadata": {"name": "e"}, "source": {"component": "c"},
            "involvedObject": {"kind": "Node", "name": "a"}});
        assert_eq!(shown(old), (json!(1), json!("c"), json!("node/a")));
        let new = json!({"metadata": {"name": "e"}, "reportingComponent": "c", "reportingInstance": "i",
            "involvedObject": {"kind": "Node"}, "series": {"count": 5}});
        assert_eq!(shown(new), (json!(5), json!("c, i"), json!("node")));
    }
}

//! A printer column: a cell of `kubectl get` for each object.

use crate::value;
use jsonpath_rust::parser::model::JpQuery;
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use regex::{Captures, Regex};
use serde_json::{Value, json};
use std::sync::LazyLock;

#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    pub(super) query: JpQuery,
}

impl Column {
    pub(crate) fn new(name: &str, kind: &str, path: &str) -> Result<Self, String> {
        let query = parse_json_path(&standard_path(path))
            .map_err(|error| format!("jsonPath {path:?} cannot be used: {error}"))?;
        Ok(Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            query,
        })
    }

    /// Returns the column with the object's name. Clients recognise this column by its format.
    pub(crate) fn name_column() -> Self {
        let base =
            Self::new("Name", "string", ".metadata.name").expect("a plain path is well formed");
        Self { format: "name".to_owned(), ..base }
    }

    pub(crate) fn header(&self) -> Value {
        json!({
            "name": self.name, "type": if self.kind == "count" { "integer" } else { &self.kind }, "format": self.format,
            "description": self.description, "priority": self.priority,
        })
    }

    /// Returns the cell of one object; null if the object has no value of the column's type.
    pub(crate) fn cell(&self, object: &Value) -> Value {
        let found = js_path_process(&self.query, object).unwrap_or_default();
        let values: Vec<&Value> =
            found.into_iter().map(jsonpath_rust::query::QueryRef::val).collect();
        match (self.kind.as_str(), values.as_slice()) {
            ("count", values) => values.len().into(),
            (_, []) => Value::Null,
            // Of several values, kubectl shows only the first.
            ("string", [Value::Null, ..]) => "<no value>".into(),
            ("string", [first, ..]) => plain(first).into(),
            ("date", [Value::String(then), ..]) => age(then).into(),
            ("integer", [value, ..]) if value.is_i64() || value.is_u64() => (*value).clone(),
            ("integer", [Value::Number(float), ..]) => {
                value::without_fraction(float.as_f64().unwrap_or_default())
            }
            ("number", [value, ..]) if value.is_number() => (*value).clone(),
            ("boolean", [value, ..]) if value.is_boolean() => (*value).clone(),
            _ => Value::Null,
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Regular expression for one step of a path, such as `.spec`; a backslash escapes the character after it.
static STEP: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\.((?:[^.\[\\]|\\.)+)").expect("the pattern is well formed"));

/// Converts a path to RFC 9535: kubectl's form has no `$` and escapes dots with a backslash.
fn standard_path(path: &str) -> String {
    let quoted = |step: &Captures<'_>| match step[1].contains("\\.") {
        true => format!("[{}]", Value::from(step[1].replace("\\.", "."))),
        false => step[0].to_owned(),
    };
    format!("${}", STEP.replace_all(path.trim().trim_start_matches('$'), quoted))
}

/// Returns the time since `then` in the format of kubectl (apimachinery `duration.HumanDuration`).
pub(crate) fn age(then: &str) -> String {
    if then.is_empty() {
        return "<unknown>".to_owned();
    }
    let Ok(then) = then.parse::<jiff::Timestamp>() else { return "<invalid>".to_owned() };
    human(jiff::Timestamp::now().as_second() - then.as_second())
}

fn human(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let pair = |large: i64, large_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{large_unit}"),
        small => format!("{large}{large_unit}{small}{small_unit}"),
    };
    match seconds {
        // A time one second in the future has the age 0: the clocks of two machines may differ a little.
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => pair(seconds / HOUR, "h", seconds % HOUR / MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => pair(seconds / DAY, "d", seconds % DAY / HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => pair(seconds / YEAR, "y", seconds % YEAR / DAY, "d"),
        252_288_000.. => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_the_format_of_kubectl() {
        let cases = [
            (5, "5s"),
            (119, "119s"),
            (130, "2m10s"),
            (3600, "60m"),
            (3 * 3600 + 60, "3h1m"),
            (86_400, "24h"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human(seconds), text);
        }
    }

    #[test]
    fn a_cell_is_converted_to_the_type_of_its_column_or_empty() {
        let object = json!({"spec": {"n": 3, "names": ["a", "b"]}, "metadata": {"labels": {"a.b/c": "x"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]}});
        let cell = |kind: &str, path: &str| Column::new("C", kind, path).unwrap().cell(&object);
        assert_eq!(cell("integer", ".spec.n"), json!(3));
        assert_eq!(cell("string", ".spec.n"), json!("3"));
        assert_eq!(cell("boolean", ".spec.n"), Value::Null);
        assert_eq!(cell("string", ".spec.absent"), Value::Null);
        assert_eq!(cell("string", ".spec.names[*]"), json!("a"));
        assert_eq!(cell("string", ".metadata.labels.a\\.b/c"), json!("x"));
        assert_eq!(
            cell("string", r#".status.conditions[?(@.type=="Ready")].status"#),
            json!("True")
        );
    }
}

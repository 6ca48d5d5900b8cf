//! Label and field selectors (apimachinery `labels.Parse`, `fields.ParseSelector`).

mod labels;

pub(crate) use labels::LabelSelector;

use crate::object::Stored;
use crate::registry::Resource;
use crate::status::Status;
use regex::Regex;
use std::sync::LazyLock;

/// A field, an operator and a value in which a backslash stands before each backslash, comma and equals sign.
static FIELD_TEST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?<field>[^=!]*)(?<operator>!=|==|=)(?<value>(?:\\[\\,=]|[^\\,=])*)$")
        .expect("the pattern is well formed")
});
static ESCAPED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\\(.)").expect("the pattern is well formed"));

/// Conditions on fields; all must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<FieldTest>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldTest {
    field: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// # Errors
    /// 400 that shows the part that cannot be read.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        let parts = split_unescaped(text).into_iter().filter(|part| !part.is_empty());
        parts.map(FieldTest::parse).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// # Errors
    /// 400 for a field of the resource that cannot be selected by.
    pub(crate) fn check(&self, resource: &Resource) -> Result<(), Status> {
        let selectable = |field: &str| {
            field == "metadata.name"
                || (field == "metadata.namespace" && resource.definition.namespaced)
                || resource.version().selectable.iter().any(|selectable| selectable.name == field)
        };
        match self.0.iter().find(|test| !selectable(&test.field)) {
            None => Ok(()),
            Some(test) => {
                let field = &test.field;
                Err(Status::bad_request(format!("field label not supported: {field}")))
            }
        }
    }

    /// An absent field counts as empty.
    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        self.0
            .iter()
            .all(|test| (stored.field(&test.field).unwrap_or_default() == test.value) == test.equal)
    }

    /// Narrows the selection to one object.
    pub(crate) fn require_name(&mut self, name: String) {
        self.0.push(FieldTest { field: "metadata.name".to_owned(), value: name, equal: true });
    }
}

impl FieldTest {
    fn parse(part: &str) -> Result<Self, Status> {
        let found = FIELD_TEST.captures(part).ok_or_else(|| {
            Status::bad_request(format!("field selector: {part:?} is no condition on a field"))
        })?;
        let value = ESCAPED.replace_all(&found["value"], "$1").into_owned();
        Ok(Self { field: found["field"].to_owned(), value, equal: &found["operator"] != "!=" })
    }
}

/// Splits at the commas that no backslash escapes.
fn split_unescaped(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|character| {
        let splits = character == ',' && !escaped;
        escaped = character == '\\' && !escaped;
        splits
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;
    use crate::registry::Registry;
    use serde_json::json;

    fn stored() -> Stored {
        let registry = Registry::builtin();
        let object = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": "a", "namespace": "n", "labels": {"app": "x", "n": "5"}}});
        registry.get("secrets").unwrap().stored(&Object::from_value(object).unwrap(), 1)
    }

    #[test]
    fn label_selectors_select() {
        let stored = stored();
        let yes = [
            "",
            "app",
            "app=x",
            "app==x",
            "app!=y",
            "absent!=y",
            "!absent",
            "app in (x, y)",
            "app notin (y)",
            "app notin (y,z), !absent ,n in (5)",
            "absent notin (x)",
            "app in(x)",
            "absent!=",
            "n>4",
            "n<6",
        ];
        for text in yes {
            assert!(LabelSelector::parse(text).unwrap().matches(&stored), "{text}");
        }
        let no = [
            "absent",
            "app=y",
            "!app",
            "app in (y,z)",
            "app notin (x),n",
            "n>5",
            "app=x,absent=1",
            "absent in (x)",
        ];
        for text in no {
            assert!(!LabelSelector::parse(text).unwrap().matches(&stored), "{text}");
        }
        for text in [
            "app in x",
            "a b",
            "=x",
            "app in (x",
            "app=a b",
            "n>x",
            "app,",
            ",app",
            "!",
            "app in ((x))",
        ] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn field_selectors_select() {
        let stored = stored();
        for text in ["metadata.name=a", "metadata.name!=b,type=Opaque", "metadata.namespace==n"] {
            assert!(FieldSelector::parse(text).unwrap().matches(&stored), "{text}");
        }
        assert!(!FieldSelector::parse("type=x").unwrap().matches(&stored));
        for text in ["metadata.name", "a=b=c", r"a=b\c", r"a=b\"] {
            assert!(FieldSelector::parse(text).is_err(), "{text}");
        }
        let escaped = FieldSelector::parse(r"a=b\,c\=d\\,e!=").unwrap();
        let values: Vec<&str> = escaped.0.iter().map(|test| test.value.as_str()).collect();
        assert_eq!(values, [r"b,c=d\", ""]);
    }
}

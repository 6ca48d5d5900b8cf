//! Label and field selectors (apimachinery `labels.Parse`, `fields.ParseSelector`).

mod labels;

pub(crate) use labels::LabelSelector;

use crate::object::Stored;
use crate::registry::Resource;
use crate::status::Status;
/// Conditions on fields; all of them must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<FieldTest>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldTest {
    field: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        let parts = text.split(',').filter(|part| !part.is_empty());
        parts.map(FieldTest::parse).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

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

    /// Returns whether the object meets all conditions. An absent field has the empty value.
    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        self.0
            .iter()
            .all(|test| (stored.field(&test.field).unwrap_or_default() == test.value) == test.equal)
    }

    /// Restricts the selection to the object of this name.
    pub(crate) fn require_name(&mut self, name: String) {
        self.0.push(FieldTest { field: "metadata.name".to_owned(), value: name, equal: true });
    }
}

impl FieldTest {
    /// Parses `field=value`, `field==value` or `field!=value`.
    fn parse(part: &str) -> Result<Self, Status> {
        let split = [("!=", false), ("==", true), ("=", true)].into_iter();
        let split = split.filter_map(|(by, equal)| Some((part.split_once(by)?, equal))).next();
        // Refuses a value with `=` or a backslash. In Kubernetes a client writes a backslash before these characters;
        // this server has no such escapes, because no value of a selectable field contains these characters.
        let plain = split.filter(|((_, value), _)| !value.contains(['=', '\\']));
        let ((field, value), equal) = plain.ok_or_else(|| {
            Status::bad_request(format!("field selector: {part:?} is no condition on a field"))
        })?;
        Ok(Self { field: field.to_owned(), value: value.to_owned(), equal })
    }
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
    fn label_selectors_select_by_all_their_conditions() {
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
            "n>4",
            "n<6",
            "app,",
            ",app",
            "!",
            "app in ((x))",
        ] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn field_selectors_select_by_all_their_conditions() {
        let stored = stored();
        for text in ["metadata.name=a", "metadata.name!=b,type=Opaque", "metadata.namespace==n"] {
            assert!(FieldSelector::parse(text).unwrap().matches(&stored), "{text}");
        }
        assert!(!FieldSelector::parse("type=x").unwrap().matches(&stored));
        for text in ["metadata.name", "a=b=c", r"a=b\c", r"a=b\"] {
            assert!(FieldSelector::parse(text).is_err(), "{text}");
        }
    }
}

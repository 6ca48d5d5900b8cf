//! Label and field selectors (apimachinery `labels.Parse`, `fields.ParseSelector`).

mod labels;

pub(crate) use labels::LabelSelector;

use crate::object::Stored;
use crate::status::Status;
use crate::verbs::Resource;

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
        parts
            .map(|part| FieldTest::parse(part, text))
            .collect::<Result<_, _>>()
            .map(Self)
            .map_err(Status::bad_request)
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
            Some(test) => Err(Status::bad_request(unknown_field(resource, &test.field))),
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

/// Kinds without fields of their own have kube-apiserver's general words.
fn unknown_field(resource: &Resource, field: &str) -> String {
    let definition = &resource.definition;
    if definition.custom || !resource.version().selectable.is_empty() {
        format!("field label not supported: {field}")
    } else {
        format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )
    }
}

impl FieldTest {
    fn parse(part: &str, whole: &str) -> Result<Self, String> {
        let strange = || format!("invalid selector: '{whole}'; can't understand '{part}'");
        let (field, value, equal) = Self::split(part).ok_or_else(strange)?;
        Ok(Self { field: field.to_owned(), value: unescape(value)?, equal })
    }

    fn split(part: &str) -> Option<(&str, &str, bool)> {
        let (at, _) = part.char_indices().find(|(at, _)| {
            let rest = part.get(*at..).unwrap_or_default();
            rest.starts_with('=') || rest.starts_with("!=")
        })?;
        let (field, rest) = part.split_at(at);
        let operators = [("!=", false), ("==", true), ("=", true)];
        let (value, equal) = operators
            .iter()
            .find_map(|(operator, equal)| Some((rest.strip_prefix(operator)?, *equal)))?;
        Some((field, value, equal))
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

/// The value that an escaped one stands for, or what is wrong with it.
fn unescape(text: &str) -> Result<String, String> {
    let sequence = |text: &str| format!("invalid field selector: invalid escape sequence: {text}");
    let mut value = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => value.push(escaped),
                Some(other) => return Err(sequence(&format!("\\{other}"))),
                None => return Err(sequence("\\")),
            },
            ',' | '=' => {
                let number = u32::from(character);
                return Err(format!(
                    "invalid field selector: unescaped character in value: {number}"
                ));
            }
            plain => value.push(plain),
        }
    }
    Ok(value)
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
        Stored::new(registry.get("secrets").unwrap(), &Object::from_value(object).unwrap(), 1)
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

//! Label and field selectors (apimachinery `labels.Parse`, `fields.ParseSelector`).

use crate::names;
use crate::object::Stored;
use crate::status::Status;
use crate::verbs::Resource;

/// Conditions on labels; all must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    /// Holds for objects without the label too.
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// # Errors
    /// 400 that shows the part that cannot be read.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        split_outside_parentheses(text)
            .into_iter()
            .map(|part| Requirement::parse(part.trim()))
            .collect::<Result<_, _>>()
            .map(Self)
            .map_err(|why| {
                Status::bad_request(format!(
                    "unable to parse requirement in labelSelector {text:?}: {why}"
                ))
            })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        self.0.iter().all(|requirement| requirement.holds(stored.label(&requirement.key)))
    }
}

impl Requirement {
    fn parse(part: &str) -> Result<Self, String> {
        let (key, test) = Self::split(part)?;
        names::qualified_name(key).map_err(|why| format!("key {key:?}: {why}"))?;
        if let Test::In(values) | Test::NotIn(values) = &test {
            for value in values {
                names::label_value(value).map_err(|why| format!("value {value:?}: {why}"))?;
            }
        }
        Ok(Self { key: key.to_owned(), test })
    }

    fn split(part: &str) -> Result<(&str, Test), String> {
        if let Some(key) = part.strip_prefix('!') {
            return Ok((key.trim(), Test::Absent));
        }
        for (operator, negative) in [("!=", true), ("==", false), ("=", false)] {
            if let Some((key, value)) = part.split_once(operator) {
                let value = vec![value.trim().to_owned()];
                return Ok((
                    key.trim(),
                    if negative { Test::NotIn(value) } else { Test::In(value) },
                ));
            }
        }
        for (operator, make) in [('>', Test::Greater as fn(i64) -> Test), ('<', Test::Less)] {
            if let Some((key, value)) = part.split_once(operator) {
                let number =
                    value.trim().parse().map_err(|_| format!("{value:?} is no integer"))?;
                return Ok((key.trim(), make(number)));
            }
        }
        let Some((head, set)) = part.split_once('(') else {
            return Ok((part, Test::Exists));
        };
        let set = set.trim_end().strip_suffix(')').ok_or("unbalanced parentheses")?;
        let values: Vec<String> = set.split(',').map(|value| value.trim().to_owned()).collect();
        match head.split_whitespace().collect::<Vec<_>>().as_slice() {
            [key, "in"] => Ok((key, Test::In(values))),
            [key, "notin"] => Ok((key, Test::NotIn(values))),
            _ => Err(format!("{head:?} is not `<key> in` or `<key> notin`")),
        }
    }

    fn holds(&self, label: Option<&str>) -> bool {
        let number = || label.and_then(|label| label.parse::<i64>().ok());
        match &self.test {
            Test::Exists => label.is_some(),
            Test::Absent => label.is_none(),
            Test::In(values) => {
                label.is_some_and(|label| values.iter().any(|value| value == label))
            }
            Test::NotIn(values) => {
                label.is_none_or(|label| values.iter().all(|value| value != label))
            }
            Test::Greater(than) => number().is_some_and(|number| number > *than),
            Test::Less(than) => number().is_some_and(|number| number < *than),
        }
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    text.split(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    })
    .collect()
}

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
        let tests = parts.map(|part| {
            FieldTest::parse(part).ok_or_else(|| {
                Status::bad_request(format!(
                    "invalid field selector {text:?}: can't understand {part:?}"
                ))
            })
        });
        tests.collect::<Result<_, _>>().map(Self)
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
                Err(Status::bad_request(format!("field label not supported: {}", test.field)))
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
    fn parse(part: &str) -> Option<Self> {
        let (at, _) = part.char_indices().find(|(at, _)| {
            let rest = part.get(*at..).unwrap_or_default();
            rest.starts_with('=') || rest.starts_with("!=")
        })?;
        let (field, rest) = part.split_at(at);
        let operators = [("!=", false), ("==", true), ("=", true)];
        let (value, equal) = operators
            .iter()
            .find_map(|(operator, equal)| Some((rest.strip_prefix(operator)?, *equal)))?;
        Some(Self { field: field.trim().to_owned(), value: unescape(value)?, equal })
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

/// The value that an escaped one stands for; none when it is not well formed.
fn unescape(text: &str) -> Option<String> {
    let mut value = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                value
                    .push(characters.next().filter(|escaped| matches!(escaped, '\\' | ',' | '='))?);
            }
            ',' | '=' => return None,
            plain => value.push(plain),
        }
    }
    Some(value)
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

//! Label selectors (apimachinery `labels.Parse`).

use crate::names;
use crate::object::Stored;
use crate::status::Status;
use regex::Regex;
use std::sync::LazyLock;

/// Regular expression of a requirement: `key`, `!key`, `key=value` and its variants, `key in (a, b)`,
/// `key notin (a, b)`.
static REQUIREMENT: LazyLock<Regex> = LazyLock::new(|| {
    let text = r"^(?:!\s*(?<absent>[^\s=!<>()]+)|(?<key>[^\s=!<>()]+)(?:\s*(?<operator>==|=|!=)\s*(?<value>[^\s=!<>()]*)|\s+(?<set>in|notin)\s*\((?<values>[^()]*)\))?)$";
    Regex::new(text).expect("the pattern is well formed")
});

/// Conditions on labels; all of them must hold.
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
    /// Holds also for objects without the label.
    NotIn(Vec<String>),
}

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let parse = |part: &str| {
            Requirement::parse(part.trim()).map_err(|why| {
                Status::bad_request(format!("label selector {text:?}: {part:?}: {why}"))
            })
        };
        parts(text).into_iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        self.0.iter().all(|requirement| requirement.holds(stored.label(&requirement.key)))
    }
}

/// Splits a selector at the commas outside parentheses.
fn parts(text: &str) -> Vec<&str> {
    let mut inside = false;
    text.split(|character| {
        inside = character == '(' || (inside && character != ')');
        character == ',' && !inside
    })
    .collect()
}

impl Requirement {
    fn parse(part: &str) -> Result<Self, String> {
        let found =
            REQUIREMENT.captures(part).ok_or("this is not a condition such as key=value")?;
        let group = |name: &str| found.name(name).map(|text| text.as_str());
        let key = group("absent").or(group("key")).unwrap_or_default().to_owned();
        let values: Vec<String> = match (group("value"), group("values")) {
            (Some(value), _) => vec![value.to_owned()],
            (_, Some(values)) => values.split(',').map(|value| value.trim().to_owned()).collect(),
            (None, None) => Vec::new(),
        };
        let faults = values.iter().flat_map(|value| names::label_value(value));
        if let Some(why) = names::qualified_name(&key).into_iter().chain(faults).next() {
            return Err(why.to_owned());
        }
        let test = match group("operator").or(group("set")) {
            None if group("absent").is_some() => Test::Absent,
            None => Test::Exists,
            Some("!=" | "notin") => Test::NotIn(values),
            Some(_) => Test::In(values),
        };
        Ok(Self { key, test })
    }

    fn holds(&self, label: Option<&str>) -> bool {
        let among = |values: &[String]| {
            label.is_some_and(|label| values.iter().any(|value| value == label))
        };
        match &self.test {
            Test::Exists => label.is_some(),
            Test::Absent => label.is_none(),
            Test::In(values) => among(values),
            Test::NotIn(values) => !among(values),
        }
    }
}

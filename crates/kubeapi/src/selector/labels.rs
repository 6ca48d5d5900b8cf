//! Label selectors, read token by token as apimachinery's `labels.Parse` does, with its words for what it does not understand.

use crate::names;
use crate::object::Stored;
use crate::status::{Cause, Status};
use serde_json::json;

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
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        parser.selector().map(Self).map_err(Status::bad_request)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        self.0.iter().all(|requirement| requirement.holds(stored.label(&requirement.key)))
    }
}

impl Requirement {
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

const OPERATORS: [&str; 7] = ["!=", "==", "=", "!", "<", ">", "("];

/// Words and symbols; the end is an empty token.
fn tokens(text: &str) -> Vec<&str> {
    let is_symbol = |character: char| "=!(),><".contains(character);
    let is_space = |character: char| matches!(character, ' ' | '\t' | '\r' | '\n');
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        let length = if rest.starts_with(is_symbol) {
            OPERATORS.iter().find(|operator| rest.starts_with(**operator)).map_or(1, |o| o.len())
        } else {
            rest.find(|character| is_symbol(character) || is_space(character)).unwrap_or(rest.len())
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start_matches(is_space);
    }
    tokens.push("");
    tokens
}

fn is_word(token: &str) -> bool {
    !token.is_empty() && !token.starts_with(['=', '!', '(', ')', ',', '>', '<'])
}

struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or_default()
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                "" => return Ok(requirements),
                token if token == "!" || is_word(token) => {}
                other => {
                    return Err(format!(
                        "found '{other}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
            let requirement = self.requirement();
            requirements
                .push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
            match self.next() {
                "" => return Ok(requirements),
                "," if self.peek() == "!" || is_word(self.peek()) => {}
                "," => {
                    return Err(format!("found '{}', expected: identifier after ','", self.peek()));
                }
                other => return Err(format!("found '{other}', expected: ',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.peek() == "!";
        if absent {
            self.next();
        }
        let key = self.next();
        if !is_word(key) {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let faults = names::qualified_name(key);
        if !faults.is_empty() {
            return Err(Cause::invalid("<nil>", &json!(key), faults.join("; ")).to_string());
        }
        let test = match self.peek() {
            "" | "," if absent => Test::Absent,
            "" | "," => Test::Exists,
            _ if absent => Test::Absent,
            _ => self.test(key)?,
        };
        Ok(Requirement { key: key.to_owned(), test })
    }

    fn test(&mut self, key: &str) -> Result<Test, String> {
        let operator = self.next();
        let values = match operator {
            "in" | "notin" => self.set()?,
            "=" | "==" | "!=" | ">" | "<" => vec![self.value()?],
            other => {
                return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt"));
            }
        };
        let mut faults = Vec::new();
        let number = |faults: &mut Vec<String>| {
            let text = values.first().map(String::as_str).unwrap_or_default();
            text.parse().unwrap_or_else(|_| {
                let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                faults.push(Cause::invalid("values[0]", &json!(text), why).to_string());
                0
            })
        };
        let test = match operator {
            "in" | "=" | "==" => Test::In(values.clone()),
            ">" => Test::Greater(number(&mut faults)),
            "<" => Test::Less(number(&mut faults)),
            _ => Test::NotIn(values.clone()),
        };
        for (index, value) in values.iter().enumerate() {
            let why = names::label_value(value);
            if !why.is_empty() {
                let field = format!("values[{index}][{key}]");
                faults.push(Cause::invalid(field, &json!(value), why.join("; ")).to_string());
            }
        }
        match faults.as_slice() {
            [] => Ok(test),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            "" | "," => Ok(String::new()),
            word if is_word(word) => Ok(self.next().to_owned()),
            other => Err(format!("found '{other}', expected: identifier")),
        }
    }

    /// The values in parentheses; an empty place is an empty value.
    fn set(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != "(" {
            return Err(format!("found '{open}' expected: '('"));
        }
        let mut values = std::collections::BTreeSet::new();
        match self.peek() {
            ")" => {
                self.next();
                return Ok(vec![String::new()]);
            }
            token if token == "," || is_word(token) => {}
            other => return Err(format!("found '{other}', expected: ',', ')' or identifier")),
        }
        loop {
            match self.next() {
                "," => {
                    if values.is_empty() || matches!(self.peek(), "," | ")") {
                        values.insert(String::new());
                    }
                }
                ")" => return Ok(values.into_iter().collect()),
                word if is_word(word) => {
                    values.insert(word.to_owned());
                    if !matches!(self.peek(), "," | ")") {
                        return Err(format!("found '{}', expected: ',' or ')'", self.peek()));
                    }
                }
                other => return Err(format!("found '{other}', expected: ',', or identifier")),
            }
        }
    }
}

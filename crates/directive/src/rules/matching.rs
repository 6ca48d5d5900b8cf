//! The check of one directive against one rule.

use regex::Regex;

use super::{Rule, RuleDef, RuleFault, Unique};
use crate::directive::{Argument, Directive};

/// A rule with compiled regular expressions.
#[derive(Debug)]
pub(super) struct Compiled {
    command: String,
    definitions: Vec<Definition>,
}

#[derive(Debug)]
struct Definition {
    key: Regex,
    kind: Kind,
    is_required: bool,
    is_value_required: bool,
    unique_within: String,
}

#[derive(Debug)]
enum Kind {
    Integer { min: i64, max: i64 },
    Bool,
    Text(Option<Regex>),
    Words(Vec<Regex>),
}

impl Compiled {
    pub(super) fn new(rule: &Rule) -> Result<Self, RuleFault> {
        let definitions = rule.rule_defs.iter().enumerate().map(|(def, written)| {
            let bad = |field, value: &str, why: &str| RuleFault::BadRule {
                object: rule.object.clone(),
                command: rule.command.clone(),
                def,
                field,
                value: value.to_owned(),
                why: why.to_owned(),
            };
            Definition::new(written, bad)
        });
        Ok(Self {
            command: rule.command.clone(),
            definitions: definitions.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the faults of a directive: first the faults of its arguments in the order of the text, then the
    /// missing arguments in the order of the rule.
    pub(super) fn faults_of(
        &self,
        index: usize,
        directive: &Directive,
        unique: &mut Unique,
    ) -> Vec<RuleFault> {
        let mut faults = Vec::new();
        let mut is_present = vec![false; self.definitions.len()];
        for argument in &directive.arguments {
            let Some(position) =
                self.definitions.iter().position(|def| def.key.is_match(&argument.key))
            else {
                faults.push(self.unknown(argument));
                continue;
            };
            if let Some(is_present) = is_present.get_mut(position) {
                *is_present = true;
            }
            let Some(definition) = self.definitions.get(position) else { continue };
            faults.extend(definition.fault_of(argument));
            faults.extend(definition.find_repeated_value(index, argument, unique));
        }
        let missing = self
            .definitions
            .iter()
            .zip(is_present)
            .filter(|(definition, is_present)| definition.is_required && !is_present);
        faults.extend(missing.map(|(definition, _)| RuleFault::Missing {
            key: key_without_anchors(&definition.key),
            expected: definition.kind.example(),
        }));
        faults
    }

    fn unknown(&self, argument: &Argument) -> RuleFault {
        let known: Vec<_> = self
            .definitions
            .iter()
            .map(|definition| key_without_anchors(&definition.key))
            .collect();
        RuleFault::UnknownArgument {
            argument: argument.to_string(),
            command: self.command.clone(),
            known: known.join(", "),
        }
    }
}

impl Definition {
    fn new(
        written: &RuleDef,
        bad: impl Fn(&'static str, &str, &str) -> RuleFault,
    ) -> Result<Self, RuleFault> {
        let compile = |field, pattern: &str| {
            Regex::new(pattern)
                .map_err(|error| bad(field, pattern, &error.to_string().replace('\n', " ")))
        };
        let kind = match written.kind.as_str() {
            "integer" => Kind::Integer { min: written.min, max: written.max },
            "bool" => Kind::Bool,
            "string" if written.pattern.is_empty() => Kind::Text(None),
            "string" => Kind::Text(Some(compile("pattern", &written.pattern)?)),
            "list-of-string" => {
                let patterns = written.patterns.iter().map(|pattern| compile("patterns", pattern));
                Kind::Words(patterns.collect::<Result<_, _>>()?)
            }
            other => {
                return Err(bad("type", other, "not one of integer, bool, string, list-of-string"));
            }
        };
        Ok(Self {
            key: compile("key", &written.key)?,
            kind,
            is_required: written.is_required,
            is_value_required: written.is_value_required,
            unique_within: written.unique_within.clone(),
        })
    }

    fn fault_of(&self, argument: &Argument) -> Option<RuleFault> {
        let (key, value) = (argument.key.clone(), argument.value().to_owned());
        if self.is_value_required && value.is_empty() {
            return Some(RuleFault::NoValue { key, expected: self.kind.example() });
        }
        if let Kind::Words(_) = self.kind
            && let Some(word) = repeated_word(&value)
        {
            return Some(RuleFault::RepeatedWord { key, word: word.to_owned(), value });
        }
        (!self.kind.admits(argument)).then(|| RuleFault::Value {
            key,
            value,
            expected: self.kind.expected(),
        })
    }

    /// Remembers the value of an argument with `unique_within`. Returns a fault if another argument with the same mark
    /// has the same value.
    fn find_repeated_value(
        &self,
        index: usize,
        argument: &Argument,
        unique: &mut Unique,
    ) -> Option<RuleFault> {
        if self.unique_within.is_empty() {
            return None;
        }
        let mark = (self.unique_within.clone(), argument.value().to_owned());
        let (other, other_key) =
            unique.entry(mark).or_insert_with(|| (index, argument.key.clone())).clone();
        // A second rule of the same command checks the same argument again, which is no repetition.
        if (other, other_key.as_str()) == (index, argument.key.as_str()) {
            return None;
        }
        let (key, value) = (argument.key.clone(), argument.value().to_owned());
        Some(RuleFault::NotUnique { key, value, other, other_key })
    }
}

impl Kind {
    fn admits(&self, argument: &Argument) -> bool {
        let value = argument.value();
        match self {
            Self::Integer { min, max } => value
                .parse::<i64>()
                .is_ok_and(|number| (*min == 0 || number >= *min) && (*max == 0 || number <= *max)),
            Self::Bool => {
                argument.value.is_none()
                    || ["true", "false"].iter().any(|word| value.eq_ignore_ascii_case(word))
            }
            Self::Text(pattern) => pattern.as_ref().is_none_or(|pattern| pattern.is_match(value)),
            Self::Words(patterns) if patterns.is_empty() => true,
            Self::Words(patterns) => {
                value.split(',').all(|word| patterns.iter().any(|pattern| pattern.is_match(word)))
            }
        }
    }

    /// Describes the values that are accepted.
    fn expected(&self) -> String {
        match self {
            Self::Integer { min: 0, max: 0 } => "an integer".to_owned(),
            Self::Integer { min, max: 0 } => format!("an integer of {min} or more"),
            Self::Integer { min: 0, max } => format!("an integer of {max} or less"),
            Self::Integer { min, max } => format!("an integer from {min} to {max}"),
            Self::Bool => "true or false".to_owned(),
            Self::Text(None) => "a text".to_owned(),
            Self::Text(Some(pattern)) => format!("a text that matches {pattern}"),
            Self::Words(patterns) => {
                let patterns: Vec<_> = patterns.iter().map(Regex::as_str).collect();
                format!(
                    "words separated by commas, each of which matches {}",
                    patterns.join(" or ")
                )
            }
        }
    }

    /// Returns a placeholder for a value, for use in a remedy.
    fn example(&self) -> String {
        match self {
            Self::Integer { .. } => "NUMBER".to_owned(),
            Self::Bool => "true".to_owned(),
            Self::Text(None) => "VALUE".to_owned(),
            Self::Text(Some(pattern)) => format!("VALUE, matching {pattern}"),
            Self::Words(_) => "WORD,WORD".to_owned(),
        }
    }
}

fn repeated_word(value: &str) -> Option<&str> {
    let words: Vec<&str> = value.split(',').collect();
    let mut earlier_words = std::collections::HashSet::new();
    words.into_iter().find(|word| !earlier_words.insert(*word))
}

/// Returns the regular expression of a key without its anchors, for messages.
fn key_without_anchors(key: &Regex) -> String {
    key.as_str().trim_start_matches('^').trim_end_matches('$').to_owned()
}

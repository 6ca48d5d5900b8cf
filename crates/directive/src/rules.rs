//! The rules of a site for directives, read from its DWDirectiveRule objects; each rule is compiled once.

mod matching;
mod shipped;

use std::collections::HashMap;
use std::sync::Arc;

use thiserror::Error;

use crate::directive::Directive;
use crate::preset::Presets;
use crate::problem::{ProblemList, Problems};
use matching::Compiled;
pub use shipped::{SHIPPED_NAME, shipped};

/// One rule: the arguments that a command accepts, and the states in which its driver (the program that carries the
/// command out) works. The fields are copied from the spec of a `DWDirectiveRule`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Name of the object that has the rule.
    pub object: String,
    /// Command of the rule, such as `jobdw`.
    pub command: String,
    /// Name of the driver; if empty, the driver has the object's name.
    pub driver_label: String,
    /// States in which the driver works, separated by commas.
    pub watch_states: String,
    /// Arguments that the command accepts.
    pub rule_defs: Vec<RuleDef>,
}

/// One argument that a command accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleDef {
    /// Regular expression that matches the argument's key, not anchored. The first definition whose expression
    /// matches a key applies.
    pub key: String,
    /// Type of the value: `integer`, `bool`, `string` or `list-of-string`.
    pub kind: String,
    /// Regular expression that a string must match; empty for any string.
    pub pattern: String,
    /// Regular expressions for the words of a list: each word must match one of them; empty for any word.
    pub patterns: Vec<String>,
    /// Smallest integer; 0 for no limit.
    pub min: i64,
    /// Largest integer; 0 for no limit.
    pub max: i64,
    /// True if the argument must be present.
    pub is_required: bool,
    /// True if the argument must have a value.
    pub is_value_required: bool,
    /// Mark for a check over a whole workflow: arguments with the same mark must have different values;
    /// empty for no check.
    pub unique_within: String,
}

impl Rule {
    /// Returns the name of the driver that carries the command out.
    #[must_use]
    pub fn driver(&self) -> &str {
        if self.driver_label.is_empty() { &self.object } else { &self.driver_label }
    }

    /// Returns the states in which the driver works.
    pub fn states(&self) -> impl Iterator<Item = &str> {
        self.watch_states.split(',').map(str::trim).filter(|state| !state.is_empty())
    }
}

/// Error: a directive breaks a rule, or a rule is malformed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleFault {
    #[error(
        "the site has no DWDirectiveRule to check the directive with; ask the administrator to install the site's rules"
    )]
    NoRules,
    #[error("command {command:?} is unknown; write one of {known}")]
    UnknownCommand { command: String, known: String },
    #[error("argument {argument:?}: {command} has no such argument; write one of {known}")]
    UnknownArgument { argument: String, command: String, known: String },
    #[error("argument {key} is missing; add {key}={expected}")]
    Missing { key: String, expected: String },
    #[error("argument {key:?} needs a value; write {key}={expected}")]
    NoValue { key: String, expected: String },
    #[error("argument {key}={value}: the value must be {expected}")]
    Value { key: String, value: String, expected: String },
    #[error("argument {key}={value}: the word {word:?} occurs twice; remove one")]
    RepeatedWord { key: String, value: String, word: String },
    #[error(
        "argument {key}={value}: directive {other} has the same {other_key}; write another value"
    )]
    NotUnique { key: String, value: String, other: usize, other_key: String },
    #[error(
        "DWDirectiveRule {object}, command {command}, ruleDefs[{def}].{field} is {value:?}: {why}; ask the administrator to correct the rule"
    )]
    BadRule {
        object: String,
        command: String,
        def: usize,
        field: &'static str,
        value: String,
        why: String,
    },
}

/// Work of a driver for a directive in a state: an entry of a workflow's `status.drivers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Name of the driver.
    pub driver: String,
    /// Index of the directive, from 0.
    pub directive: usize,
    /// Name of the state, as the rule spells it.
    pub state: String,
}

/// All rules of a site, and its presets.
#[derive(Debug, Default)]
pub struct Ruleset {
    rules: Vec<(Rule, Result<Compiled, RuleFault>)>,
    presets: Arc<Presets>,
}

impl Ruleset {
    /// Compiles the rules. A command with a malformed rule is refused; directives with other commands are not affected.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        let rules = rules.into_iter().map(|rule| {
            let compiled = Compiled::new(&rule);
            (rule, compiled)
        });
        Self { rules: rules.collect(), presets: Arc::default() }
    }

    /// Sets the site's presets.
    #[must_use]
    pub fn with_presets(self, presets: Arc<Presets>) -> Self {
        Self { presets, ..self }
    }

    /// Replaces the presets in directives by their arguments.
    ///
    /// # Errors
    /// All faults of presets.
    pub fn expand(&self, lines: &[String]) -> Result<Vec<String>, Problems> {
        self.presets.expand(lines)
    }

    /// Returns the faults of the rules themselves.
    pub fn faults(&self) -> impl Iterator<Item = &RuleFault> {
        self.rules.iter().filter_map(|(_, compiled)| compiled.as_ref().err())
    }

    /// Parses the directives of a workflow and checks each against every rule of its command.
    ///
    /// # Errors
    /// All problems of all directives.
    pub fn check(&self, lines: &[String]) -> Result<Vec<Directive>, Problems> {
        let mut problems = ProblemList::new(lines);
        let mut directives = Vec::new();
        let mut unique = Unique::default();
        for (index, line) in lines.iter().enumerate() {
            match line.parse::<Directive>() {
                Ok(directive) => {
                    let found = self.faults_of(index, &directive, &mut unique);
                    found.into_iter().for_each(|fault| problems.add(index, fault));
                    directives.push(directive);
                }
                Err(error) => problems.add(index, error),
            }
        }
        problems.into_result(directives)
    }

    /// Returns the entries for `status.drivers`: directive by directive, each driver and state in
    /// which the driver works.
    #[must_use]
    pub fn drivers(&self, directives: &[Directive]) -> Vec<Driver> {
        let entry = |directive: usize, rule: &Rule, state: &str| {
            let (driver, state) = (rule.driver().to_owned(), state.to_owned());
            Driver { driver, directive, state }
        };
        let entries_of = |(index, directive): (usize, &Directive)| {
            let rules = self.rules_of(&directive.command).map(|(rule, _)| rule);
            let entries = rules
                .flat_map(move |rule| rule.states().map(move |state| entry(index, rule, state)));
            entries.collect::<Vec<_>>()
        };
        directives.iter().enumerate().flat_map(entries_of).collect()
    }

    fn rules_of(
        &self,
        command: &str,
    ) -> impl Iterator<Item = &(Rule, Result<Compiled, RuleFault>)> {
        self.rules.iter().filter(move |(rule, _)| rule.command == command)
    }

    fn faults_of(
        &self,
        index: usize,
        directive: &Directive,
        unique: &mut Unique,
    ) -> Vec<RuleFault> {
        if self.rules.is_empty() {
            return vec![RuleFault::NoRules];
        }
        let mut rules = self.rules_of(&directive.command).peekable();
        if rules.peek().is_none() {
            return vec![self.unknown(&directive.command)];
        }
        let mut faults = Vec::new();
        for (_, compiled) in rules {
            let found = match compiled {
                Ok(compiled) => compiled.faults_of(index, directive, unique),
                Err(fault) => vec![fault.clone()],
            };
            // Two rules may find the same fault in an argument.
            faults.extend(
                found.into_iter().filter(|fault| !faults.contains(fault)).collect::<Vec<_>>(),
            );
        }
        faults
    }

    fn unknown(&self, command: &str) -> RuleFault {
        let mut known: Vec<&str> =
            self.rules.iter().map(|(rule, _)| rule.command.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        RuleFault::UnknownCommand { command: command.to_owned(), known: known.join(", ") }
    }
}

/// For each value of an argument with `unique_within`: where it was first seen, as index of the directive and key.
type Unique = HashMap<(String, String), (usize, String)>;

#[cfg(test)]
mod tests;

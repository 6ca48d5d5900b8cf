//! What a site allows in directives: the rules of its DWDirectiveRule objects, each compiled once.

mod matching;
mod shipped;

use std::collections::HashMap;

use thiserror::Error;

use crate::directive::Directive;
use crate::problem::{Gathered, Problems};
use matching::Compiled;
pub use shipped::{SHIPPED_NAME, shipped};

/// One rule: which arguments a command takes, and in which states its driver works. The fields are those of a
/// `DWDirectiveRule`'s spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Name of the object that the rule stands in.
    pub object: String,
    /// The command it is about, such as `jobdw`.
    pub command: String,
    /// Name of the driver; empty for the object's name.
    pub driver_label: String,
    /// States, separated by commas.
    pub watch_states: String,
    /// The arguments.
    pub rule_defs: Vec<RuleDef>,
}

/// One argument that a command takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleDef {
    /// Regular expression that the argument's key matches, not anchored. The first definition that matches a key counts.
    pub key: String,
    /// `integer`, `bool`, `string` or `list-of-string`.
    pub kind: String,
    /// Regular expression that a string matches; empty for any.
    pub pattern: String,
    /// Regular expressions of which each word of a list matches one; empty for any.
    pub patterns: Vec<String>,
    /// Least integer; 0 for none.
    pub min: i64,
    /// Greatest integer; 0 for none.
    pub max: i64,
    /// Whether the command needs it.
    pub is_required: bool,
    /// Whether it needs a value.
    pub is_value_required: bool,
    /// Among all arguments of a workflow with this mark no value is there twice; empty for none.
    pub unique_within: String,
}

impl Rule {
    /// The driver whose work this is.
    #[must_use]
    pub fn driver(&self) -> &str {
        if self.driver_label.is_empty() { &self.object } else { &self.driver_label }
    }

    /// The states in which it works.
    pub fn states(&self) -> impl Iterator<Item = &str> {
        self.watch_states.split(',').map(str::trim).filter(|state| !state.is_empty())
    }
}

/// How a directive breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleFault {
    #[error("no DWDirectiveRule is there to check it; the administrator installs the site's rules")]
    NoRules,
    #[error("command {command:?} is unknown; write one of {known}")]
    UnknownCommand { command: String, known: String },
    #[error("argument {argument:?}: {command} takes no such argument; write {known}")]
    UnknownArgument { argument: String, command: String, known: String },
    #[error("argument {key} is missing; add {key}={expected}")]
    Missing { key: String, expected: String },
    #[error("argument {key:?} needs a value; write {key}={expected}")]
    NoValue { key: String, expected: String },
    #[error("argument {key}={value}: {expected} is needed")]
    Value { key: String, value: String, expected: String },
    #[error("argument {key}={value}: the word {word:?} stands twice; leave one out")]
    RepeatedWord { key: String, value: String, word: String },
    #[error(
        "argument {key}={value}: directive {other} has the same {other_key}; give each its own"
    )]
    NotUnique { key: String, value: String, other: usize, other_key: String },
    #[error(
        "DWDirectiveRule {object}, command {command}, ruleDefs[{def}].{field} is {value:?}: {why}; the administrator corrects the rule"
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

/// That a driver has work to do for a directive in a state: an entry of a workflow's `status.drivers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// The driver.
    pub driver: String,
    /// Which directive, from 0.
    pub directive: usize,
    /// The state, as the rule spells it.
    pub state: String,
}

/// All rules of a site.
#[derive(Debug, Default)]
pub struct Ruleset {
    rules: Vec<(Rule, Result<Compiled, RuleFault>)>,
}

impl Ruleset {
    /// Compiles the rules. One that is malformed refuses the directives of its command, and no others.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        let rules = rules.into_iter().map(|rule| {
            let compiled = Compiled::new(&rule);
            (rule, compiled)
        });
        Self { rules: rules.collect() }
    }

    /// What is wrong with the rules themselves.
    pub fn faults(&self) -> impl Iterator<Item = &RuleFault> {
        self.rules.iter().filter_map(|(_, compiled)| compiled.as_ref().err())
    }

    /// Parses the directives of a workflow and checks each against every rule of its command.
    ///
    /// # Errors
    /// All problems of all directives.
    pub fn check(&self, lines: &[String]) -> Result<Vec<Directive>, Problems> {
        let mut problems = Gathered::of(lines);
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
        problems.or(directives)
    }

    /// Which drivers have work in which states, by directive.
    #[must_use]
    pub fn drivers(&self, directives: &[Directive]) -> Vec<Driver> {
        let entry = |directive: usize, rule: &Rule, state: &str| {
            let (driver, state) = (rule.driver().to_owned(), state.to_owned());
            Driver { driver, directive, state }
        };
        let of = |(index, directive): (usize, &Directive)| {
            let rules = self.rules_of(&directive.command).map(|(rule, _)| rule);
            let entries = rules
                .flat_map(move |rule| rule.states().map(move |state| entry(index, rule, state)));
            entries.collect::<Vec<_>>()
        };
        directives.iter().enumerate().flat_map(of).collect()
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
            // Two rules may say the same of one argument.
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

/// By mark and value: which argument of which directive has it.
type Unique = HashMap<(String, String), (usize, String)>;

#[cfg(test)]
mod tests;

//! What is wrong with the directives of a workflow, for the user who wrote them.

use std::fmt;

use causes::{MESSAGE, message, quoted, shortened};
use thiserror::Error;

use crate::breakdown::BreakdownFault;
use crate::check::MeaningFault;
use crate::command::CommandFault;
use crate::directive::SyntaxError;
use crate::rules::RuleFault;

/// One problem of one directive.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("DW directive {index} `{}`: {}", quoted(line), message(&fault.to_string()))]
pub struct Problem {
    /// Which directive, from 0.
    pub index: usize,
    /// As it was written.
    pub line: String,
    /// What is wrong with it, and the remedy.
    pub fault: Fault,
}

/// What is wrong with a directive.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// It is no directive.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// It breaks a rule of the site.
    #[error(transparent)]
    Rule(#[from] RuleFault),
    /// An argument cannot be meant.
    #[error(transparent)]
    Command(#[from] CommandFault),
    /// It does not fit the other directives, or what the site has.
    #[error(transparent)]
    Meaning(#[from] MeaningFault),
    /// No storage can be derived from it.
    #[error(transparent)]
    Breakdown(#[from] BreakdownFault),
}

/// Everything that is wrong with a workflow; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl std::error::Error for Problems {}

/// Bytes for what others say before the problems, such as the name of the Workflow.
const HEAD: usize = 512;

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut told = None;
        for problem in &self.0 {
            // A directive is quoted once, whatever is wrong with it.
            let fault = message(&problem.fault.to_string());
            match told.replace(problem.index) {
                None => text.push_str(&problem.to_string()),
                Some(index) if index == problem.index => text.push_str(&format!("; {fault}")),
                Some(_) => text.push_str(&format!("; {problem}")),
            }
        }
        f.write_str(&shortened(text, MESSAGE - HEAD))
    }
}

/// Gathers the problems of a workflow.
#[derive(Debug)]
pub(crate) struct Gathered<'a> {
    lines: &'a [String],
    problems: Vec<Problem>,
}

impl<'a> Gathered<'a> {
    pub(crate) fn of(lines: &'a [String]) -> Self {
        Self { lines, problems: Vec::new() }
    }

    pub(crate) fn add(&mut self, index: usize, fault: impl Into<Fault>) {
        let line = self.lines.get(index).cloned().unwrap_or_default();
        self.problems.push(Problem { index, line, fault: fault.into() });
    }

    /// `value` when nothing is wrong. A stable sort keeps each directive's own order.
    pub(crate) fn or<T>(mut self, value: T) -> Result<T, Problems> {
        if self.problems.is_empty() {
            return Ok(value);
        }
        self.problems.sort_by_key(|problem| problem.index);
        Err(Problems(self.problems))
    }
}

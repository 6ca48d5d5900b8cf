//! The problems of a workflow's directives, for the user who wrote them.

use std::fmt;

use causes::{MESSAGE, message, quoted, shortened};
use thiserror::Error;

use crate::breakdown::BreakdownFault;
use crate::check::MeaningFault;
use crate::command::CommandFault;
use crate::directive::SyntaxError;
use crate::preset::PresetFault;
use crate::rules::RuleFault;

/// One problem of one directive.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("DW directive {index} `{}`: {}", quoted(line), message(&fault.to_string()))]
pub struct Problem {
    /// Index of the directive, from 0.
    pub index: usize,
    /// The directive, as the user wrote it.
    pub line: String,
    /// The fault and its remedy.
    pub fault: Fault,
}

/// Fault of a directive.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The line is no directive.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// The directive breaks a rule of the site.
    #[error(transparent)]
    Rule(#[from] RuleFault),
    /// The directive names a preset that the site lacks, or repeats an argument of its preset.
    #[error(transparent)]
    Preset(#[from] PresetFault),
    /// An argument is missing, invalid or superfluous.
    #[error(transparent)]
    Command(#[from] CommandFault),
    /// The directive contradicts another directive of the workflow, or names an object that the site lacks.
    #[error(transparent)]
    Meaning(#[from] MeaningFault),
    /// The directive and its profile contradict each other.
    #[error(transparent)]
    Breakdown(#[from] BreakdownFault),
}

/// All problems of a workflow; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl std::error::Error for Problems {}

/// Bytes of a message that are left for the caller's own text before the problems, such as the name of the Workflow.
const HEAD: usize = 512;

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut quoted_index = None;
        for problem in &self.0 {
            // A directive is quoted only once, even if it has several faults.
            let fault = message(&problem.fault.to_string());
            match quoted_index.replace(problem.index) {
                None => text.push_str(&problem.to_string()),
                Some(index) if index == problem.index => text.push_str(&format!("; {fault}")),
                Some(_) => text.push_str(&format!("; {problem}")),
            }
        }
        f.write_str(&shortened(text, MESSAGE - HEAD))
    }
}

/// Collects the problems of a workflow.
#[derive(Debug)]
pub(crate) struct ProblemList<'a> {
    lines: &'a [String],
    problems: Vec<Problem>,
}

impl<'a> ProblemList<'a> {
    pub(crate) fn new(lines: &'a [String]) -> Self {
        Self { lines, problems: Vec::new() }
    }

    pub(crate) fn add(&mut self, index: usize, fault: impl Into<Fault>) {
        let line = self.lines.get(index).cloned().unwrap_or_default();
        self.problems.push(Problem { index, line, fault: fault.into() });
    }

    /// Returns `value`, or the problems if there are any. The stable sort keeps the order within a directive.
    pub(crate) fn into_result<T>(mut self, value: T) -> Result<T, Problems> {
        if self.problems.is_empty() {
            return Ok(value);
        }
        self.problems.sort_by_key(|problem| problem.index);
        Err(Problems(self.problems))
    }
}

//! Parses the command that mpirun hands to its remote shell. The command is a single text; this module splits the text
//! into words, so that no shell ever sees it.
//!
//! Launchers use only a small part of the shell's language: variables before the command (Open MPI sets them if its
//! installation has a prefix), quotes, and Open MPI's test for `.profile`. This module rejects everything else that
//! needs a shell, with one exception: patterns of file names (`*`, `?`, `[`, `{`) stay as they are, as in a shell
//! that finds no match.

mod parts;
mod value;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use self::parts::{Part, parts, words};
pub(crate) use self::value::Value;

/// Open MPI puts this text before a command if the user's shell is `sh`. A worker has no `.profile`.
const PROFILE: &str = "( test ! -r ./.profile || . ./.profile;";

/// A command split into words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Command {
    /// Variables in the order of their assignment.
    pub(crate) variables: Vec<(String, Value)>,
    /// The program and its arguments.
    pub(crate) words: Vec<String>,
}

/// Why a text is not a command that a worker can start without a shell.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum CommandError {
    #[error("the command is empty: name a program after the host")]
    Empty,
    #[error(
        "{character:?} in the command {text:?} needs a shell, and no shell runs on a worker: quote it, or remove it"
    )]
    Shell {
        /// The first character that only a shell can interpret.
        character: char,
        text: String,
    },
    #[error("{0:?} before the command sets no variable: write NAME=VALUE")]
    NoVariable(String),
    #[error(
        "{0:?} needs a shell, and no shell runs on a worker: in the value of a variable use only $NAME, ${{NAME}} and ${{NAME:-TEXT}}"
    )]
    Reference(String),
    #[error("the command {0:?} has an unclosed quote: close it")]
    Quote(String),
}

impl Command {
    /// Parses the text that mpirun hands to its remote shell.
    pub(crate) fn parse(text: &str) -> Result<Self, CommandError> {
        let text = text.trim();
        let inner = text.strip_prefix(PROFILE).and_then(|text| text.strip_suffix(')'));
        let parts = parts(inner.unwrap_or(text).trim())?;
        let (last, before) = parts.split_last().ok_or(CommandError::Empty)?;
        if last.refers {
            return Err(CommandError::Shell { character: '$', text: last.text.clone() });
        }
        let mut command = Self { variables: Vec::new(), words: words(&last.text)? };
        for part in before {
            command.variables.extend(variables(part)?);
        }
        if command.words.is_empty() { Err(CommandError::Empty) } else { Ok(command) }
    }

    /// Returns the values of the variables on a worker. `has` returns the worker's own variables by name.
    pub(crate) fn environment(
        &self,
        has: impl Fn(&str) -> Option<String>,
    ) -> Vec<(String, String)> {
        let mut known: Vec<(String, String)> = Vec::new();
        for (name, value) in &self.variables {
            let get = |name: &str| {
                let set = known.iter().rev().find(|(known_name, _)| known_name == name);
                set.map(|(_, value)| value.clone()).or_else(|| has(name))
            };
            let value = value.evaluate(get);
            known.push((name.clone(), value));
        }
        known
    }
}

/// Parses `NAME=VALUE`, or `export NAME`, which adds no variable.
fn variables(part: &Part) -> Result<Vec<(String, Value)>, CommandError> {
    let words = words(&part.text)?;
    let invalid = || CommandError::NoVariable(part.text.trim().to_owned());
    let (is_export, words) = match words.split_first() {
        Some((first, rest)) if first == "export" => (true, rest),
        _ => (false, &*words),
    };
    if part.is_literal {
        return Err(invalid());
    }
    let assignments = words.iter().filter(|word| !(is_export && value::is_name(word)));
    assignments
        .map(|word| {
            let (name, value) = word.split_once('=').ok_or_else(invalid)?;
            if value::is_name(name) {
                Ok((name.to_owned(), Value::parse(value)?))
            } else {
                Err(invalid())
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;

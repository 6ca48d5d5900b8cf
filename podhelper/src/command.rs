//! The command that mpirun has for its agent: text for a remote shell. Here it is cut into words, and no shell ever sees it.
//!
//! What launchers write is little of a shell's language: variables before the command, which Open MPI has for an installation
//! with a prefix, quotes, and Open MPI's reading of `.profile`. What else only a shell acts on is refused, except for patterns
//! of file names (`*`, `?`, `[`, `{`): they stay as they are, as in a shell that finds no such file.

mod parts;
mod value;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use self::parts::{Part, parts, words};
pub(crate) use self::value::Value;

/// What Open MPI puts before a command where the user's shell is `sh`. There is no `.profile` in a worker.
const PROFILE: &str = "( test ! -r ./.profile || . ./.profile;";

/// A command in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Command {
    /// Variables in their order.
    pub(crate) variables: Vec<(String, Value)>,
    /// The program and its arguments.
    pub(crate) words: Vec<String>,
}

/// A command that needs a shell, or is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum CommandError {
    #[error("the command is empty: name a program after the host")]
    Empty,
    #[error(
        "{character:?} in the command {text:?} is for a shell, and no shell runs on a worker: quote it, or take it out"
    )]
    Shell {
        /// What a shell would act on.
        character: char,
        /// The command.
        text: String,
    },
    #[error("{0:?} before the command sets no variable: write NAME=VALUE")]
    NoVariable(String),
    #[error(
        "{0:?} is for a shell, and no shell runs on a worker: in the value of a variable $NAME, ${{NAME}} and ${{NAME:-TEXT}} are read"
    )]
    Reference(String),
    #[error("a quote in the command {0:?} has no end: add one")]
    Quote(String),
}

impl Command {
    /// The command that a remote shell would be given.
    pub(crate) fn of(text: &str) -> Result<Self, CommandError> {
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

    /// The variables as a worker has them that has these.
    pub(crate) fn environment(
        &self,
        has: impl Fn(&str) -> Option<String>,
    ) -> Vec<(String, String)> {
        let mut known: Vec<(String, String)> = Vec::new();
        for (name, value) in &self.variables {
            let get = |name: &str| {
                let set = known.iter().rev().find(|(one, _)| one == name);
                set.map(|(_, value)| value.clone()).or_else(|| has(name))
            };
            let value = value.on(get);
            known.push((name.clone(), value));
        }
        known
    }
}

/// `NAME=VALUE`, or `export NAME`, which says no more.
fn variables(part: &Part) -> Result<Vec<(String, Value)>, CommandError> {
    let words = words(&part.text)?;
    let wrong = || CommandError::NoVariable(part.text.trim().to_owned());
    let (is_export, words) = match words.split_first() {
        Some((first, rest)) if first == "export" => (true, rest),
        _ => (false, &*words),
    };
    if part.is_literal {
        return Err(wrong());
    }
    let set = words.iter().filter(|word| !(is_export && value::is_name(word)));
    set.map(|word| {
        let (name, value) = word.split_once('=').ok_or_else(wrong)?;
        if value::is_name(name) { Ok((name.to_owned(), Value::of(value)?)) } else { Err(wrong()) }
    })
    .collect()
}

#[cfg(test)]
mod tests;

//! The command line of a profile (`data.command`). Warren starts it without a shell: it splits the line into words, and
//! replaces variables inside their words, so that a path is a part of one word whatever characters the path has.

mod scan;

use thiserror::Error;

use self::scan::check;

/// The variables that a command line may have.
const VARIABLES: [&str; 5] = ["HOSTFILE", "UID", "GID", "SRC", "DEST"];
/// The variables that a command line must have.
const REQUIRED: [&str; 2] = ["SRC", "DEST"];
/// Option of Open MPI that is left out: the command never runs as root.
const AS_ROOT: &str = "--allow-run-as-root";

/// A part of a command line that Warren cannot carry out, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    #[error(
        "data.command is empty, and data.image is not: ask the administrator to write the command that copies, with $SRC and $DEST"
    )]
    Empty,
    #[error(
        "data.command {command:?} needs a shell for {part:?}, and Warren starts none: ask the administrator to {remedy}"
    )]
    Shell { command: String, part: String, remedy: String },
    #[error(
        "data.command {command:?} has the variable ${name}, and Warren knows only $HOSTFILE, $UID, $GID, $SRC and $DEST: ask the administrator to write its value"
    )]
    Variable { command: String, name: String },
    #[error(
        "data.command {command:?} has a $ that a shell would not replace: ask the administrator to write variables neither in single quotes nor behind a backslash"
    )]
    QuotedVariable { command: String },
    #[error("data.command {command:?} lacks the variable ${name}: ask the administrator to add it")]
    Missing { command: String, name: &'static str },
    #[error(
        "data.command {command:?} has a quotation mark without its end: ask the administrator to add the end"
    )]
    Quotes { command: String },
}

/// The values of the variables of a command line.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// Path of the file with MPI's hosts.
    pub hostfile: &'a str,
    pub user: i64,
    pub group: i64,
    /// Path to copy.
    pub source: &'a str,
    pub destination: &'a str,
}

/// A command line that needs no shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// Words with variables.
    words: Vec<String>,
}

impl CommandLine {
    /// Splits a command line into words.
    ///
    /// # Errors
    /// A part that only a shell can carry out, an unknown variable, or a missing one.
    pub fn parse(command: &str) -> Result<Self, CommandError> {
        let text = || command.to_owned();
        check(command)?;
        let words =
            shell_words::split(command).map_err(|_| CommandError::Quotes { command: text() })?;
        let words: Vec<String> = words.into_iter().filter(|word| word != AS_ROOT).collect();
        if words.is_empty() {
            return Err(CommandError::Empty);
        }
        let has = |name: &str| {
            words.iter().any(|word| parts(word).any(|part| part == Part::Variable(name)))
        };
        match REQUIRED.into_iter().find(|name| !has(name)) {
            Some(name) => Err(CommandError::Missing { command: text(), name }),
            None => Ok(Self { words }),
        }
    }

    /// Returns the words with the values of the variables.
    #[must_use]
    pub fn words(&self, values: Values<'_>) -> Vec<String> {
        let value = |part: Part<'_>| match part {
            Part::Text(text) => text.to_owned(),
            Part::Variable("HOSTFILE") => values.hostfile.to_owned(),
            Part::Variable("UID") => values.user.to_string(),
            Part::Variable("GID") => values.group.to_string(),
            Part::Variable("SRC") => values.source.to_owned(),
            Part::Variable(_) => values.destination.to_owned(),
        };
        self.words.iter().map(|word| parts(word).map(value).collect()).collect()
    }
}

/// A part of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'a> {
    Text(&'a str),
    /// A variable of [`VARIABLES`], without `$`.
    Variable(&'a str),
}

/// Divides a checked word into its parts: each `$` in the word begins a variable.
fn parts(word: &str) -> impl Iterator<Item = Part<'_>> {
    let mut pieces = word.split('$');
    let first = pieces.next().map(Part::Text);
    let rest = pieces.flat_map(|piece| {
        let (name, length) = variable(piece).unwrap_or_default();
        [Part::Variable(name), Part::Text(&piece[length..])]
    });
    first.into_iter().chain(rest)
}

/// Returns the name of the variable after a `$`, and the length of the text that names it; `None` if no name follows.
fn variable(text: &str) -> Option<(&str, usize)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (start, name) = match text.strip_prefix('{') {
        Some(rest) => (1, rest.split_once('}')?.0),
        None => (0, &text[..text.find(|c| !is_name(c)).unwrap_or(text.len())]),
    };
    (!name.is_empty() && name.chars().all(is_name)).then_some((name, name.len() + 2 * start))
}

#[cfg(test)]
mod tests;

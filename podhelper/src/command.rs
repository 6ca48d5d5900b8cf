//! The command that mpirun has for its agent: text for a remote shell. Here it is cut into words, and no shell ever sees it.
//!
//! What launchers write is little of a shell's language: variables before the command, which Open MPI has for an installation
//! with a prefix, quotes, and Open MPI's reading of `.profile`. All else is refused.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What Open MPI puts before a command where the user's shell is `sh`. There is no `.profile` in a worker.
const PROFILE: &str = "( test ! -r ./.profile || . ./.profile;";

/// A command in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Command {
    /// Variables in their order; `$NAME` in a value is what the worker has.
    pub(crate) variables: Vec<(String, String)>,
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
        if let Some(character) = last.refers {
            return Err(CommandError::Shell { character, text: last.text.clone() });
        }
        let mut command = Self { variables: Vec::new(), words: words(&last.text)? };
        for part in before {
            command.variables.extend(part.variables()?);
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
                set.map(|(_, value)| value.clone()).or_else(|| has(name)).unwrap_or_default()
            };
            let value = expanded(value, get);
            known.push((name.clone(), value));
        }
        known
    }
}

/// What stands between two semicolons.
#[derive(Debug, Default)]
struct Part {
    text: String,
    /// A `$` that a shell would act on.
    refers: Option<char>,
    /// A `$` that it would leave as it is.
    is_literal: bool,
}

impl Part {
    /// `NAME=VALUE`, or `export NAME`, which says no more.
    fn variables(&self) -> Result<Vec<(String, String)>, CommandError> {
        let words = words(&self.text)?;
        let wrong = || CommandError::NoVariable(self.text.trim().to_owned());
        let (is_export, words) = match words.split_first() {
            Some((first, rest)) if first == "export" => (true, rest),
            _ => (false, &*words),
        };
        if self.is_literal {
            return Err(wrong());
        }
        let set = words.iter().filter(|word| !(is_export && is_name(word)));
        set.map(|word| {
            let (name, value) = word.split_once('=').ok_or_else(wrong)?;
            if is_name(name) { Ok((name.to_owned(), value.to_owned())) } else { Err(wrong()) }
        })
        .collect()
    }
}

/// Cuts a text at the semicolons that are not quoted, and refuses what only a shell understands.
fn parts(text: &str) -> Result<Vec<Part>, CommandError> {
    let mut parts = vec![Part::default()];
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let part = parts.last_mut().expect("there is a first");
        match (quote, character) {
            (None, ';') => {
                parts.push(Part::default());
                continue;
            }
            (None, '|' | '&' | '<' | '>' | '(' | ')' | '\n') | (None | Some('"'), '`') => {
                return Err(CommandError::Shell { character, text: text.to_owned() });
            }
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None | Some('"'), '$') => part.refers = Some('$'),
            (Some(_), '$') => part.is_literal = true,
            (None | Some('"'), '\\') => {
                part.text.push('\\');
                let Some(next) = characters.next() else { break };
                part.is_literal |= next == '$';
                part.text.push(next);
                continue;
            }
            _ => {}
        }
        part.text.push(character);
    }
    parts.retain(|part| !part.text.trim().is_empty());
    Ok(parts)
}

fn words(text: &str) -> Result<Vec<String>, CommandError> {
    shell_words::split(text).map_err(|_| CommandError::Quote(text.to_owned()))
}

fn is_name(text: &str) -> bool {
    let is_inner = |one: char| one.is_ascii_alphanumeric() || one == '_';
    !text.is_empty()
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(is_inner)
}

/// A value with what its `$NAME`s are.
fn expanded(value: &str, get: impl Fn(&str) -> String) -> String {
    let mut pieces = value.split('$');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let braced = piece.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let end = || piece.find(|one: char| !one.is_ascii_alphanumeric() && one != '_');
        let (name, rest) = braced.unwrap_or_else(|| piece.split_at(end().unwrap_or(piece.len())));
        text = text + &get(name) + rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Command {
        Command::of(text).unwrap()
    }

    #[test]
    fn what_launchers_write_is_cut_into_words() {
        let cases: [(&str, &[&str]); 5] = [
            ("orted -mca ess \"env\"", &["orted", "-mca", "ess", "env"]),
            (
                "orted -mca orte_node_regex \"w-launcher,w-worker-[1:0-1]@0(3)\"",
                &["orted", "-mca", "orte_node_regex", "w-launcher,w-worker-[1:0-1]@0(3)"],
            ),
            (
                "\"/usr/bin/hydra_pmi_proxy\" --rmk user",
                &["/usr/bin/hydra_pmi_proxy", "--rmk", "user"],
            ),
            ("( test ! -r ./.profile || . ./.profile; orted a )", &["orted", "a"]),
            ("echo '$(id); `id`' \\; a\\ b", &["echo", "$(id); `id`", ";", "a b"]),
        ];
        for (text, words) in cases {
            assert_eq!(of(text).words, words, "{text}");
        }
    }

    #[test]
    fn a_prefix_becomes_variables_of_the_command() {
        let command = of("PATH=/opt/ompi/bin:$PATH ; export PATH ; \
             LD_LIBRARY_PATH=/opt/ompi/lib:${LD_LIBRARY_PATH} ; export LD_LIBRARY_PATH; \
             export OPAL_PREFIX=\"/opt/o mpi\";  /opt/ompi/bin/orted a");
        assert_eq!(command.words, ["/opt/ompi/bin/orted", "a"]);
        let has = |name: &str| (name == "PATH").then(|| "/bin".to_owned());
        let expected = [
            ("PATH", "/opt/ompi/bin:/bin"),
            ("LD_LIBRARY_PATH", "/opt/ompi/lib:"),
            ("OPAL_PREFIX", "/opt/o mpi"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(command.environment(has), expected);
    }

    #[test]
    fn what_needs_a_shell_is_refused() {
        for text in
            ["a | b", "a && b", "a > b", "(a)", "a\nb", "a `b`", "a \"`b`\"", "a $B", "a \"$B\""]
        {
            let told = Command::of(text).unwrap_err();
            assert!(matches!(told, CommandError::Shell { .. }), "{text}: {told}");
        }
        for text in ["a b; c", "a.b=c; d", "A='$B'; c", "A=\\$B; c"] {
            let told = Command::of(text).unwrap_err();
            assert!(matches!(told, CommandError::NoVariable(_)), "{text}: {told}");
        }
        for text in ["", " ; ", "''"] {
            let told = Command::of(text);
            assert!(told == Err(CommandError::Empty) || told.unwrap().words == [""], "{text}");
        }
        assert!(matches!(Command::of("a 'b"), Err(CommandError::Quote(_))));
    }
}

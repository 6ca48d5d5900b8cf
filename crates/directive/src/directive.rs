//! The grammar of a `#DW` line: `#DW`, a command and arguments, separated by Unicode white space. An argument is
//! `key`, or `key=value`, whose value is everything after the first `=`. There are no quotes or escapes, and no
//! comment can follow on the same line: a word that begins with `#` is refused.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use thiserror::Error;
use winnow::combinator::{eof, opt, preceded, repeat, terminated};
use winnow::stream::LocatingSlice;
use winnow::token::{rest, take_while};
use winnow::{ModalResult, Parser};

/// Prefix of every directive.
pub(crate) const PREFIX: &str = "#DW";

/// One directive, as the user wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Command, such as `jobdw`.
    pub command: String,
    /// Arguments in the order in which they were written; no key occurs twice.
    pub arguments: Vec<Argument>,
}

/// One argument of a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Key: the text before the first `=`.
    pub key: String,
    /// Value: the text after the first `=`; `None` without a `=`.
    pub value: Option<String>,
}

impl Directive {
    /// Returns the value of an argument: empty for an argument without a value, `None` for an argument that is missing.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        let argument = self.arguments.iter().find(|argument| argument.key == key)?;
        Some(argument.value())
    }
}

impl Argument {
    /// Returns the value; empty for an argument without a value.
    #[must_use]
    pub fn value(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }
}

impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX} {}", self.command)?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.key),
            None => f.write_str(&self.key),
        }
    }
}

/// Error: the line is not a directive.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("column {column}: {fault}")]
pub struct SyntaxError {
    /// Column of the fault, in characters, from 1.
    pub column: usize,
    /// The fault and its remedy.
    pub fault: SyntaxFault,
}

/// Fault of a line that is not a directive.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SyntaxFault {
    /// The line does not begin with `#DW`.
    #[error("the line does not begin with the word #DW; write `#DW COMMAND KEY=VALUE …`")]
    NoPrefix,
    /// The line has nothing but `#DW`.
    #[error(
        "no command follows #DW; write one, such as `#DW jobdw type=xfs capacity=1GiB name=scratch`"
    )]
    NoCommand,
    /// The first word after `#DW` is an argument.
    #[error(
        "{0:?} is an argument in the place of the command; write a command before the arguments, as in `#DW jobdw type=xfs capacity=1GiB name=scratch`"
    )]
    ArgumentFirst(String),
    /// A comment follows the directive.
    #[error("{0:?} begins a comment after the directive; write the comment on a separate line")]
    Comment(String),
    /// An argument begins with `=`.
    #[error("argument {0:?} has no key; write KEY=VALUE without white space around the `=`")]
    NoKey(String),
    /// A key occurs twice.
    #[error("argument {key} occurs twice, with the values {first:?} and {second:?}; remove one")]
    Repeated {
        /// Key that occurs twice.
        key: String,
        /// Value at its first place.
        first: String,
        /// Value at its second place.
        second: String,
    },
}

impl FromStr for Directive {
    type Err = SyntaxError;

    fn from_str(line: &str) -> Result<Self, SyntaxError> {
        let at = |offset: usize, fault| SyntaxError { column: column(line, offset), fault };
        let Ok(words) = words.parse(LocatingSlice::new(line)) else {
            return Err(at(line.len() - line.trim_start().len(), SyntaxFault::NoPrefix));
        };
        let mut words = words.into_iter();
        let Some((command, place)) = words.next() else {
            return Err(at(line.trim_end().len(), SyntaxFault::NoCommand));
        };
        if command.starts_with('#') {
            return Err(at(place.start, SyntaxFault::Comment(command.to_owned())));
        }
        if command.contains('=') {
            return Err(at(place.start, SyntaxFault::ArgumentFirst(command.to_owned())));
        }
        let mut arguments: Vec<Argument> = Vec::new();
        for (word, place) in words {
            let argument = argument(word).map_err(|fault| at(place.start, fault))?;
            if let Some(first) = arguments.iter().find(|known| known.key == argument.key) {
                let (first, second) = (first.value().to_owned(), argument.value().to_owned());
                return Err(at(
                    place.start,
                    SyntaxFault::Repeated { key: argument.key, first, second },
                ));
            }
            arguments.push(argument);
        }
        Ok(Self { command: command.to_owned(), arguments })
    }
}

type Input<'a> = LocatingSlice<&'a str>;

/// Parses the words after `#DW`, with the position of each.
fn words<'a>(input: &mut Input<'a>) -> ModalResult<Vec<(&'a str, Range<usize>)>> {
    let blanks = |least: std::ops::RangeFrom<usize>| take_while(least, char::is_whitespace);
    let word = take_while(1.., |character: char| !character.is_whitespace()).with_span();
    let line = preceded((blanks(0..), PREFIX), repeat(0.., preceded(blanks(1..), word)));
    terminated(line, (blanks(0..), eof)).parse_next(input)
}

fn argument(word: &str) -> Result<Argument, SyntaxFault> {
    if word.starts_with('#') {
        return Err(SyntaxFault::Comment(word.to_owned()));
    }
    let Ok((key, value)) = key_and_value.parse(word) else {
        return Err(SyntaxFault::NoKey(word.to_owned()));
    };
    Ok(Argument { key: key.to_owned(), value: value.map(str::to_owned) })
}

fn key_and_value<'a>(input: &mut &'a str) -> ModalResult<(&'a str, Option<&'a str>)> {
    let key = take_while(1.., |character| character != '=');
    (key, opt(preceded('=', rest))).parse_next(input)
}

fn column(line: &str, offset: usize) -> usize {
    line.get(..offset).unwrap_or(line).chars().count() + 1
}

/// Splits a text with several directives, such as the attribute `dw` of a Flux job, at each word `#DW`. Text before
/// the first `#DW` becomes a separate directive, to which `#DW` is added. An empty text has no directives.
#[must_use]
pub fn split(text: &str) -> Vec<String> {
    let begins = |(at, _): &(usize, &str)| {
        let rest = text.get(at + PREFIX.len()..).unwrap_or_default();
        rest.chars().next().is_none_or(char::is_whitespace)
    };
    let mut places: Vec<usize> =
        text.match_indices(PREFIX).filter(begins).map(|(at, _)| at).collect();
    places.push(text.len());
    let first = places.first().and_then(|first| text.get(..*first)).unwrap_or_default().trim();
    let mut lines: Vec<String> =
        if first.is_empty() { Vec::new() } else { vec![format!("{PREFIX} {first}")] };
    let parts = places.windows(2).filter_map(|ends| text.get(ends[0] + PREFIX.len()..ends[1]));
    lines.extend(parts.map(|part| format!("{PREFIX} {}", part.trim()).trim_end().to_owned()));
    lines
}

#[cfg(test)]
mod tests;

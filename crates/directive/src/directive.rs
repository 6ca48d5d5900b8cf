//! The grammar of a `#DW` line: `#DW`, a command and arguments, separated by Unicode white space. An argument is `key`, or `key`
//! and everything after its first `=`. Nothing quotes or escapes, and no remark follows on the line: a word that begins with `#`
//! is refused.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use thiserror::Error;
use winnow::combinator::{eof, opt, preceded, repeat, terminated};
use winnow::stream::LocatingSlice;
use winnow::token::{rest, take_while};
use winnow::{ModalResult, Parser};

/// What every directive begins with.
pub(crate) const PREFIX: &str = "#DW";

/// One directive, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Such as `jobdw`.
    pub command: String,
    /// In the order in which they were written; no key is there twice.
    pub arguments: Vec<Argument>,
}

/// One argument of a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// What stands before the first `=`.
    pub key: String,
    /// What stands after it; `None` without a `=`.
    pub value: Option<String>,
}

impl Directive {
    /// The value of an argument: empty when it was written without one, `None` when it is not there.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        let argument = self.arguments.iter().find(|argument| argument.key == key)?;
        Some(argument.value())
    }
}

impl Argument {
    /// The value; empty without one.
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

/// A line that is no directive.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("column {column}: {fault}")]
pub struct SyntaxError {
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong there.
    pub fault: SyntaxFault,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SyntaxFault {
    /// Something else stands first.
    #[error("the line does not begin with the word #DW; write `#DW COMMAND KEY=VALUE …`")]
    NoPrefix,
    /// Nothing follows `#DW`.
    #[error(
        "no command follows #DW; write one, such as `#DW jobdw type=xfs capacity=1GiB name=scratch`"
    )]
    NoCommand,
    /// An argument stands where the command belongs.
    #[error(
        "{0:?} stands where the command belongs; write it before the arguments, as in `#DW jobdw type=xfs capacity=1GiB name=scratch`"
    )]
    ArgumentFirst(String),
    /// A remark stands behind the directive.
    #[error("{0:?} begins a remark behind the directive; a remark needs a line of its own")]
    Remark(String),
    /// An argument that begins with `=`.
    #[error("argument {0:?} has no key; write KEY=VALUE without blanks around the `=`")]
    NoKey(String),
    /// A key that was there before.
    #[error("argument {key} stands twice, with the values {first:?} and {second:?}; leave one out")]
    Repeated {
        /// The key.
        key: String,
        /// Its first value.
        first: String,
        /// Its second value.
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
            return Err(at(place.start, SyntaxFault::Remark(command.to_owned())));
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

/// The words after `#DW`, and where each stands.
fn words<'a>(input: &mut Input<'a>) -> ModalResult<Vec<(&'a str, Range<usize>)>> {
    let blanks = |least: std::ops::RangeFrom<usize>| take_while(least, char::is_whitespace);
    let word = take_while(1.., |character: char| !character.is_whitespace()).with_span();
    let line = preceded((blanks(0..), PREFIX), repeat(0.., preceded(blanks(1..), word)));
    terminated(line, (blanks(0..), eof)).parse_next(input)
}

fn argument(word: &str) -> Result<Argument, SyntaxFault> {
    if word.starts_with('#') {
        return Err(SyntaxFault::Remark(word.to_owned()));
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

/// The directives in a text that may hold several, as Flux splits a job's `dw` attribute: at each `#DW` that a blank or the end
/// follows. A text without `#DW` is one directive that lacks it. An empty text holds none.
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

//! Parses and evaluates the value of a variable: text, and references to the worker's variables.

use serde::{Deserialize, Serialize};

use super::CommandError;

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Value(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Piece {
    Text(String),
    /// The worker's variable of this name, or its replacement.
    Own {
        name: String,
        or: Replacement,
    },
}

/// When a text replaces a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Replacement {
    /// `$NAME`, `${NAME}` and `${NAME-TEXT}`: if the variable is not set.
    Unset(String),
    /// `${NAME:-TEXT}`: if the variable is not set, or empty.
    Empty(String),
    /// `${NAME+TEXT}`: if the variable is set.
    Set(String),
    /// `${NAME:+TEXT}`: if the variable is set and not empty.
    Full(String),
}

impl Value {
    /// Parses a value with these forms of references only.
    pub(super) fn parse(text: &str) -> Result<Self, CommandError> {
        let mut all = text.split('$');
        let mut pieces = vec![Piece::Text(all.next().unwrap_or_default().to_owned())];
        for piece in all {
            let invalid = || CommandError::Reference(format!("${piece}"));
            let (own, rest) = reference(piece).ok_or_else(invalid)?;
            pieces.extend([own, Piece::Text(rest.to_owned())]);
        }
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        Ok(Self(pieces))
    }

    /// Returns the value on a worker; `get` looks up the worker's variables.
    pub(super) fn evaluate(&self, get: impl Fn(&str) -> Option<String>) -> String {
        let text = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Own { name, or } => or.evaluate(get(name)),
        };
        self.0.iter().map(text).collect()
    }
}

impl Replacement {
    fn evaluate(&self, own: Option<String>) -> String {
        let full = own.clone().filter(|value| !value.is_empty());
        match self {
            Self::Unset(text) => own.unwrap_or_else(|| text.clone()),
            Self::Empty(text) => full.unwrap_or_else(|| text.clone()),
            Self::Set(text) => own.map(|_| text.clone()).unwrap_or_default(),
            Self::Full(text) => full.map(|_| text.clone()).unwrap_or_default(),
        }
    }
}

/// Parses the reference after a `$`, and returns the rest of the text.
fn reference(piece: &str) -> Option<(Piece, &str)> {
    let Some(inner) = piece.strip_prefix('{') else {
        let (name, rest) = split_name(piece)?;
        return Some((Piece::Own { name, or: Replacement::Unset(String::new()) }, rest));
    };
    let (inner, rest) = inner.split_once('}')?;
    let (name, form) = split_name(inner)?;
    Some((Piece::Own { name, or: replacement(form)? }, rest))
}

/// Parses what follows a name in braces.
fn replacement(form: &str) -> Option<Replacement> {
    let text = |sign: &str| form.strip_prefix(sign).map(str::to_owned);
    if form.is_empty() {
        return Some(Replacement::Unset(String::new()));
    }
    text(":-")
        .map(Replacement::Empty)
        .or_else(|| text(":+").map(Replacement::Full))
        .or_else(|| text("-").map(Replacement::Unset))
        .or_else(|| text("+").map(Replacement::Set))
}

/// Splits off the name at the beginning of a text.
fn split_name(text: &str) -> Option<(String, &str)> {
    let end = text.find(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    is_name(name).then(|| (name.to_owned(), rest))
}

pub(super) fn is_name(text: &str) -> bool {
    let is_inner = |character: char| character.is_ascii_alphanumeric() || character == '_';
    !text.is_empty()
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(is_inner)
}

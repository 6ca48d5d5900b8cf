//! The value of a variable: text, and what the worker has.

use serde::{Deserialize, Serialize};

use super::CommandError;

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Value(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Piece {
    Text(String),
    /// What the worker has under this name, or this text.
    Own {
        name: String,
        or: Or,
    },
}

/// What stands in the place of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Or {
    /// `$NAME`, `${NAME}` and `${NAME-TEXT}`: this where it is not set.
    Unset(String),
    /// `${NAME:-TEXT}`: this where it is not set, or empty.
    Empty(String),
    /// `${NAME+TEXT}`: this where it is set.
    Set(String),
    /// `${NAME:+TEXT}`: this where it is set, and not empty.
    Full(String),
}

impl Value {
    /// Reads a value as a shell does that knows these forms alone.
    pub(super) fn of(text: &str) -> Result<Self, CommandError> {
        let mut all = text.split('$');
        let mut pieces = vec![Piece::Text(all.next().unwrap_or_default().to_owned())];
        for piece in all {
            let wrong = || CommandError::Reference(format!("${piece}"));
            let (own, rest) = reference(piece).ok_or_else(wrong)?;
            pieces.extend([own, Piece::Text(rest.to_owned())]);
        }
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        Ok(Self(pieces))
    }

    /// The value on a worker that has these variables.
    pub(super) fn on(&self, get: impl Fn(&str) -> Option<String>) -> String {
        let text = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Own { name, or } => or.on(get(name)),
        };
        self.0.iter().map(text).collect()
    }
}

impl Or {
    fn on(&self, own: Option<String>) -> String {
        let full = own.clone().filter(|value| !value.is_empty());
        match self {
            Self::Unset(text) => own.unwrap_or_else(|| text.clone()),
            Self::Empty(text) => full.unwrap_or_else(|| text.clone()),
            Self::Set(text) => own.map(|_| text.clone()).unwrap_or_default(),
            Self::Full(text) => full.map(|_| text.clone()).unwrap_or_default(),
        }
    }
}

/// What stands after a `$`, and what follows it.
fn reference(piece: &str) -> Option<(Piece, &str)> {
    let Some(inner) = piece.strip_prefix('{') else {
        let (name, rest) = named(piece)?;
        return Some((Piece::Own { name, or: Or::Unset(String::new()) }, rest));
    };
    let (inner, rest) = inner.split_once('}')?;
    let (name, form) = named(inner)?;
    Some((Piece::Own { name, or: or(form)? }, rest))
}

/// What stands behind a name in braces.
fn or(form: &str) -> Option<Or> {
    let text = |sign: &str| form.strip_prefix(sign).map(str::to_owned);
    if form.is_empty() {
        return Some(Or::Unset(String::new()));
    }
    text(":-")
        .map(Or::Empty)
        .or_else(|| text(":+").map(Or::Full))
        .or_else(|| text("-").map(Or::Unset))
        .or_else(|| text("+").map(Or::Set))
}

/// The name that a text begins with, and what follows it.
fn named(text: &str) -> Option<(String, &str)> {
    let end = text.find(|one: char| !one.is_ascii_alphanumeric() && one != '_');
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    is_name(name).then(|| (name.to_owned(), rest))
}

pub(super) fn is_name(text: &str) -> bool {
    let is_inner = |one: char| one.is_ascii_alphanumeric() || one == '_';
    !text.is_empty()
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(is_inner)
}

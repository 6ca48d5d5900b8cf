//! Inserts values into a line for bash. A value needs different quoting inside and outside of quotes.

use std::{borrow::Cow, collections::BTreeMap};

use super::{LISTS, longest};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Single,
    Double,
}

/// Replaces the variables in `line` by their values; the values themselves contain no variables.
pub(super) fn expand(line: &str, variables: &BTreeMap<String, String>) -> String {
    let nested = substitutes(line);
    let mut out = String::new();
    let mut quotes = Quotes::None;
    let mut rest = line;
    while let Some(char) = rest.chars().next() {
        let mut used = char.len_utf8();
        match (char, quotes) {
            ('\\', Quotes::None | Quotes::Double) => {
                used += rest[used..].chars().next().map_or(0, char::len_utf8);
                out.push_str(&rest[..used]);
            }
            ('$', _) => match longest(rest, variables) {
                Some(name) => {
                    used = name.len();
                    out.push_str(&insert(name, &variables[name], quotes, nested));
                }
                None => out.push('$'),
            },
            _ => {
                quotes = turn(char, quotes);
                out.push(char);
            }
        }
        rest = &rest[used..];
    }
    out
}

fn turn(char: char, quotes: Quotes) -> Quotes {
    match (char, quotes) {
        ('\'', Quotes::None) => Quotes::Single,
        ('"', Quotes::None) => Quotes::Double,
        ('\'', Quotes::Single) | ('"', Quotes::Double) => Quotes::None,
        _ => quotes,
    }
}

/// Returns whether the line has a construct, such as a command substitution, inside which bash applies other rules of
/// quoting. The quotes that this module counts then do not show how bash reads a value.
fn substitutes(line: &str) -> bool {
    ["`", "$(", "${", "$'", "<(", ">("].iter().any(|opening| line.contains(opening))
}

fn insert<'a>(name: &str, value: &'a str, quotes: Quotes, nested: bool) -> Cow<'a, str> {
    let list = LISTS.contains(&name);
    let safe = |char: char| plain(char) || (list && char == ' ');
    if value.chars().all(safe) && !(value.is_empty() && quotes == Quotes::None) {
        return Cow::Borrowed(value);
    }
    if nested {
        return Cow::Owned(value.chars().map(|char| if safe(char) { char } else { '_' }).collect());
    }
    Cow::Owned(match quotes {
        Quotes::None => format!("'{}'", value.replace('\'', r"'\''")),
        Quotes::Single => value.replace('\'', r"'\''"),
        Quotes::Double => value.chars().flat_map(escaped).collect(),
    })
}

fn escaped(char: char) -> impl Iterator<Item = char> {
    matches!(char, '$' | '`' | '"' | '\\').then_some('\\').into_iter().chain([char])
}

/// Returns whether the character has no special meaning to bash anywhere in a word.
fn plain(char: char) -> bool {
    char.is_ascii_alphanumeric()
        || matches!(char, '_' | '-' | '.' | '/' | ':' | '=' | ',' | '+' | '@' | '%')
}

//! Expands the `$VARIABLES` in a site's command lines. Pure text.

mod shell;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use thiserror::Error;

/// A command line of a profile with the variables that are known when the object is read.
///
/// `$DEVICE` and similar variables are known only once the node has been observed;
/// [`SiteCommand::expand`] takes them then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteCommand {
    line: String,
    variables: BTreeMap<String, String>,
}

/// The reason why a command line cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SiteCommandError {
    #[error("{field}: unbalanced quotes in {line:?}: close every ' and \" in the profile")]
    UnbalancedQuotes { field: String, line: String },
    #[error("{field}: control character in {line:?}: one printable line per command")]
    ControlCharacter { field: String, line: String },
}

/// Maximum bytes of a value up to which nested variables are expanded; Linux accepts 128 KiB per argument.
const LONGEST_VALUE: usize = 64 * 1024;

/// Variables whose value is several words for bash: the value of any other variable stays one word.
const LISTS: [&str; 1] = ["$DEVICE_LIST"];

impl SiteCommand {
    /// Checks a profile's line and keeps it with the variables known so far, whose names include the `$`. Returns
    /// `None` for a blank line, with which a site skips the step.
    pub fn new(
        field: &str,
        line: &str,
        variables: BTreeMap<String, String>,
    ) -> Result<Option<Self>, SiteCommandError> {
        let line = line.trim();
        if line.is_empty() {
            return Ok(None);
        }
        if line.chars().any(|char| char.is_control() && char != '\t') {
            return Err(SiteCommandError::ControlCharacter {
                field: field.to_owned(),
                line: line.to_owned(),
            });
        }
        if shell_words::split(line).is_err() {
            return Err(SiteCommandError::UnbalancedQuotes {
                field: field.to_owned(),
                line: line.to_owned(),
            });
        }
        Ok(Some(Self { line: line.to_owned(), variables }))
    }

    /// Returns the line as the site wrote it.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Returns the line with every known variable replaced, longest name first, in one pass; bash
    /// expands the unknown ones.
    ///
    /// `more` holds the variables from the observation (`$DEVICE`); a variable that the command already has wins
    /// over it, because a site's `variableOverride` is among those. The line is the site's and trusted. Values are
    /// not: each stays one word with the same text whatever it contains, except `$DEVICE_LIST`, which is several
    /// words. Where the line itself substitutes commands, no quoting is certain to be right, so every character that
    /// is not plain becomes `_`.
    pub fn expand(&self, more: &BTreeMap<String, String>) -> String {
        let mut table = more.clone();
        table.extend(self.variables.iter().map(|(name, value)| (name.clone(), value.clone())));
        shell::expand(&self.line, &resolve(&table))
    }
}

/// Returns `text` with every known variable replaced, longest name first, in one pass and without
/// any quoting: for paths.
///
/// A value may contain other variables (as in `variableOverride`); these are resolved first, and a cycle stays as text.
pub fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    replace(text, &resolve(variables))
}

fn resolve(variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    variables
        .keys()
        .map(|name| (name.clone(), resolve_name(name, variables, &mut Vec::new())))
        .collect()
}

fn resolve_name<'a>(
    name: &'a str,
    variables: &'a BTreeMap<String, String>,
    path: &mut Vec<&'a str>,
) -> String {
    let Some(value) = variables.get(name) else { return name.to_owned() };
    path.push(name);
    let mut text = String::new();
    let mut rest = value.as_str();
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        match longest(rest, variables)
            .filter(|inner| !path.contains(inner) && text.len() < LONGEST_VALUE)
        {
            Some(inner) => {
                text.push_str(&resolve_name(inner, variables, path));
                rest = &rest[inner.len()..];
            }
            None => {
                text.push('$');
                rest = &rest[1..];
            }
        }
    }
    path.pop();
    text.push_str(rest);
    text
}

fn replace(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (value, used) = longest(rest, variables)
            .map_or(("$", 1), |name| (variables[name].as_str(), name.len()));
        out.push_str(value);
        rest = &rest[used..];
    }
    out.push_str(rest);
    out
}

/// Returns the longest variable name that `text` begins with: `$DEVICE` is also the beginning of
/// `$DEVICE_LIST` and of `$DEVICE1`.
fn longest<'a>(text: &str, variables: &'a BTreeMap<String, String>) -> Option<&'a str> {
    variables
        .keys()
        .map(String::as_str)
        .filter(|name| name.len() > 1 && name.starts_with('$') && text.starts_with(name))
        .max_by_key(|name| name.len())
}

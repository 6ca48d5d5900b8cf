//! Replaces the `$VARIABLES` in a site's command lines. Works on text only.

mod shell;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use thiserror::Error;

/// A command line of a profile, with the variables whose values are known when the agent reads the object.
///
/// Variables such as `$DEVICE` have values only after an observation of the node; the caller passes
/// these values to [`SiteCommand::expand`].
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

/// Maximum bytes of a value in which nested variables are still replaced; Linux accepts 128 KiB per argument.
const LONGEST_VALUE: usize = 64 * 1024;

/// Variables whose value is several words for bash; the value of any other variable is one word.
const LISTS: [&str; 1] = ["$DEVICE_LIST"];

impl SiteCommand {
    /// Checks a profile's line and keeps it with the variables known so far, whose names include the `$`. Returns
    /// `None` for a blank line: with a blank line a site skips the step.
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

    /// Returns the line with every known variable replaced in one pass, the longest name first. Unknown variables stay,
    /// and bash replaces them.
    ///
    /// `more` holds the variables that an observation provides, such as `$DEVICE`. If the command already has a
    /// variable of the same name, the command's value is used: it may come from a site's `variableOverride`. The
    /// site wrote the line, so the line is trusted. Values are not trusted: bash reads each value as one word with
    /// the same text, whatever the value contains. Only `$DEVICE_LIST` becomes several words. If the line itself
    /// contains a command substitution, no quoting is certain to be right; then every character of a value that is
    /// special to bash becomes `_`.
    pub fn expand(&self, more: &BTreeMap<String, String>) -> String {
        let mut table = more.clone();
        table.extend(self.variables.iter().map(|(name, value)| (name.clone(), value.clone())));
        shell::expand(&self.line, &resolve(&table))
    }
}

/// Returns `text`, which is a path, with every known variable replaced in one pass, the longest name first
/// and without any quoting.
///
/// A value may contain other variables, as in `variableOverride`. These are replaced first. If a variable's value leads
/// back to the variable itself, its name stays as text.
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

/// Returns the longest variable name with which `text` begins: `$DEVICE_LIST` and `$DEVICE1` also begin with `$DEVICE`.
fn longest<'a>(text: &str, variables: &'a BTreeMap<String, String>) -> Option<&'a str> {
    variables
        .keys()
        .map(String::as_str)
        .filter(|name| name.len() > 1 && name.starts_with('$') && text.starts_with(name))
        .max_by_key(|name| name.len())
}

//! Presets: names for arguments of directives, which a site defines. `#DW jobdw preset=small name=scratch` stands for
//! the same directive with the preset's arguments in the place of `preset=small`.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::directive::{Argument, Directive, SyntaxError};
use crate::problem::{ProblemList, Problems};

/// The argument that names a preset.
const KEY: &str = "preset";

/// The presets of a site, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Presets(BTreeMap<String, Vec<Argument>>);

/// Fault of the preset in a site's file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PresetError {
    #[error("write only arguments, such as `type=xfs capacity=100GiB`: {0}")]
    Syntax(#[source] SyntaxError),
    #[error("a preset cannot name a preset; write its arguments")]
    Nested,
    #[error("it has no argument; write some, such as `type=xfs capacity=100GiB`")]
    Empty,
    #[error("the name is not one word without `=`; write another name")]
    Name,
}

/// Fault of a directive that names a preset.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PresetFault {
    #[error("argument preset={name}: the site has no such preset; write one of {known}")]
    Unknown { name: String, known: String },
    #[error("argument {key} is part of preset={name} already, as {inside}; remove one of the two")]
    Repeated { key: String, name: String, inside: String },
}

impl Presets {
    /// Adds a preset.
    ///
    /// # Errors
    /// When the text has anything but arguments, or names a preset.
    pub fn add(&mut self, name: &str, text: &str) -> Result<(), PresetError> {
        if name.is_empty() || name.contains(|letter: char| letter.is_whitespace() || letter == '=')
        {
            return Err(PresetError::Name);
        }
        let line = format!("#DW jobdw {text}");
        let directive: Directive = line.parse().map_err(PresetError::Syntax)?;
        if directive.value(KEY).is_some() {
            return Err(PresetError::Nested);
        }
        if directive.arguments.is_empty() {
            return Err(PresetError::Empty);
        }
        self.0.insert(name.to_owned(), directive.arguments);
        Ok(())
    }

    /// Replaces each argument `preset` by the arguments of that preset. Other lines stay as they are, and so do all
    /// lines where the site has no presets: the site's rules then judge the argument.
    ///
    /// # Errors
    /// All unknown presets, and all arguments that a preset repeats.
    pub fn expand(&self, lines: &[String]) -> Result<Vec<String>, Problems> {
        let mut problems = ProblemList::new(lines);
        let mut expanded = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            let directive = line.parse::<Directive>().ok().filter(|_| !self.0.is_empty());
            match directive.filter(|directive| directive.value(KEY).is_some()) {
                None => expanded.push(line.clone()),
                Some(directive) => match self.with_arguments(&directive) {
                    Ok(directive) => expanded.push(directive.to_string()),
                    Err(fault) => problems.add(index, fault),
                },
            }
        }
        problems.into_result(expanded)
    }

    fn with_arguments(&self, directive: &Directive) -> Result<Directive, PresetFault> {
        let mut arguments = Vec::new();
        for argument in &directive.arguments {
            if argument.key != KEY {
                arguments.push(argument.clone());
                continue;
            }
            let inside = self.0.get(argument.value()).ok_or_else(|| self.unknown(argument))?;
            for part in inside {
                if directive.arguments.iter().any(|given| given.key == part.key) {
                    let (key, name) = (part.key.clone(), argument.value().to_owned());
                    return Err(PresetFault::Repeated { key, name, inside: part.to_string() });
                }
                arguments.push(part.clone());
            }
        }
        Ok(Directive { command: directive.command.clone(), arguments })
    }

    fn unknown(&self, argument: &Argument) -> PresetFault {
        let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
        PresetFault::Unknown { name: argument.value().to_owned(), known: known.join(", ") }
    }
}

#[cfg(test)]
mod tests;

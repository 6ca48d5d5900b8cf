//! Sources and destinations of `copy_in` and `copy_out`: in storage of the job, in persistent storage, or
//! on a global Lustre.

use std::str::FromStr;

use thiserror::Error;

/// The source or destination of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// `$DW_JOB_<name>[/path]`: in storage of this job.
    Job(Inside),
    /// `$DW_PERSISTENT_<name>[/path]`: in persistent storage.
    Persistent(Inside),
    /// `/path` on a global file system.
    Global(String),
}

/// A path inside storage that a directive names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Name of the storage, with `-` where the variable has `_`.
    pub name: String,
    /// Path after the variable, with its leading `/`; empty for the storage itself. A trailing `/` is kept, because a
    /// copy may treat `dir` and `dir/` differently.
    pub path: String,
}

/// Error: the text is not a source or destination.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LocationError {
    #[error(
        "not a source or destination; write $DW_JOB_NAME/PATH, $DW_PERSISTENT_NAME/PATH, or the absolute path of a file on a global Lustre"
    )]
    NotALocation,
    #[error(
        "the variable lacks the name of its storage; write {0}_NAME, with the name of a directive of this workflow"
    )]
    NoName(&'static str),
    #[error(
        "the character {0:?} has a special meaning in shells; rename the file, or name its directory"
    )]
    Shell(char),
    #[error("the component .. may lead out of the storage; write the path without it")]
    Parent,
}

const JOB: &str = "$DW_JOB";
const PERSISTENT: &str = "$DW_PERSISTENT";

/// Characters that some shells expand, or at which they split or end a word. They are refused because a path may
/// become a part of the site's command lines.
const SHELL: &str = "$`\\\"';&|<>(){}[]*?!";

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        if let Some(rest) = text.strip_prefix(JOB) {
            return inside(rest, JOB).map(Self::Job);
        }
        if let Some(rest) = text.strip_prefix(PERSISTENT) {
            return inside(rest, PERSISTENT).map(Self::Persistent);
        }
        if !text.starts_with('/') {
            return Err(LocationError::NotALocation);
        }
        checked_path(text).map(|path| Self::Global(path.to_owned()))
    }
}

/// Parses the text after the variable: `_name[/path]`.
fn inside(rest: &str, variable: &'static str) -> Result<Inside, LocationError> {
    let (name, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let name = match name.strip_prefix('_') {
        Some(name) if !name.is_empty() => checked_path(name)?.replace('_', "-"),
        Some(_) => return Err(LocationError::NoName(variable)),
        None if name.is_empty() => return Err(LocationError::NoName(variable)),
        None => return Err(LocationError::NotALocation),
    };
    Ok(Inside { name, path: checked_path(path)?.to_owned() })
}

/// Returns the path, unless a shell would change it or `..` could lead out of the storage.
fn checked_path(path: &str) -> Result<&str, LocationError> {
    let special = |character: &char| {
        SHELL.contains(*character) || character.is_control() || character.is_whitespace()
    };
    if let Some(character) = path.chars().find(special) {
        return Err(LocationError::Shell(character));
    }
    if path.split('/').any(|component| component == "..") {
        return Err(LocationError::Parent);
    }
    Ok(path)
}

/// Returns whether `path` is `root` or lies beneath it: `/lus/a` lies beneath `/lus`, `/lustre` does not.
#[must_use]
pub fn is_beneath(path: &str, root: &str) -> bool {
    let root = root.trim_end_matches('/');
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests;

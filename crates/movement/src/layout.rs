//! Which directory a copy fills, and under which name. The rules are the sites': those of `dcp` behind the Go data movement, for
//! each kind of source and destination.

use thiserror::Error;

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Absent,
}

/// Where a copy goes, relative to the destination's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Directory that must exist first. Empty means the root.
    pub directory: String,
    /// Name of the copied file or directory in it; `None` when the contents of a directory are copied into it.
    pub name: Option<String>,
}

/// Source and destination that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    #[error("the source does not exist")]
    NoSource,
    #[error("the source is a file, and its path ends with /; write it without")]
    FileWithSlash,
    #[error("the source is a directory, and the destination is a file; name a directory")]
    DirectoryOntoFile,
}

/// Decides where a copy goes. `index_directory` is inserted beneath the destination's directory.
///
/// # Errors
/// When the source does not exist, or cannot be copied onto what lies at the destination.
pub fn layout(
    source: (&str, Kind),
    destination: (&str, Kind),
    index_directory: Option<&str>,
) -> Result<Layout, LayoutError> {
    let beneath = |directory: &str| match index_directory {
        Some(index) => join(directory, index),
        None => directory.to_owned(),
    };
    let (path, to) = (source.0, trimmed(destination.0));
    match source.1 {
        Kind::Absent => Err(LayoutError::NoSource),
        Kind::File if path.ends_with('/') => Err(LayoutError::FileWithSlash),
        Kind::File if names_a_file(destination) => {
            let (directory, name) = to.rsplit_once('/').unwrap_or(("", to));
            Ok(Layout { directory: beneath(directory), name: Some(name.to_owned()) })
        }
        Kind::File => Ok(Layout { directory: beneath(to), name: last(path) }),
        Kind::Directory if destination.1 == Kind::File => Err(LayoutError::DirectoryOntoFile),
        // The root of a storage has no name.
        Kind::Directory if path.ends_with('/') || path.is_empty() => {
            Ok(Layout { directory: beneath(to), name: None })
        }
        Kind::Directory => Ok(Layout { directory: beneath(to), name: last(path) }),
    }
}

/// Whether a file that is copied there gets the destination's own name: it is a file, or nothing and does not end with `/`.
fn names_a_file((path, kind): (&str, Kind)) -> bool {
    match kind {
        Kind::File => true,
        Kind::Directory => false,
        Kind::Absent => !path.ends_with('/') && !trimmed(path).is_empty(),
    }
}

fn trimmed(path: &str) -> &str {
    path.trim_matches('/')
}

fn last(path: &str) -> Option<String> {
    trimmed(path).rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned)
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

#[cfg(test)]
mod tests;

//! Decides into which directory of the destination a copy is written, and under which name. The rules are those of the
//! Go data movement of NearNodeFlash (nnf-dm), which copies with `dcp`: jobs on the sites' systems depend on them.

use thiserror::Error;

/// The type of the entry at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Absent,
}

/// Directory and name of a copy, relative to the destination's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Directory that must exist before the copy starts. Empty means the root.
    pub directory: String,
    /// Name of the copied file or directory in `directory`; `None` when the contents of a source directory are copied
    /// into `directory`.
    pub name: Option<String>,
}

/// Why a source cannot be copied to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    #[error("the source does not exist")]
    NoSource,
    #[error("the source is a file, and its path ends with /; remove the /")]
    FileWithSlash,
    #[error(
        "the source is a directory, and the destination is a file; name a directory as destination"
    )]
    DirectoryOntoFile,
}

/// Returns directory and name of a copy. `index_directory` is appended to the destination's directory.
///
/// # Errors
/// When the source does not exist, or its type cannot be copied onto the destination's type.
pub fn layout(
    source: (&str, Kind),
    destination: (&str, Kind),
    index_directory: Option<&str>,
) -> Result<Layout, LayoutError> {
    let beneath = |directory: &str| match index_directory {
        Some(index) => join(directory, index),
        None => directory.to_owned(),
    };
    let (path, to) = (source.0, without_outer_slashes(destination.0));
    match source.1 {
        Kind::Absent => Err(LayoutError::NoSource),
        Kind::File if path.ends_with('/') => Err(LayoutError::FileWithSlash),
        Kind::File if ends_with_file_name(destination) => {
            let (directory, name) = to.rsplit_once('/').unwrap_or(("", to));
            Ok(Layout { directory: beneath(directory), name: Some(name.to_owned()) })
        }
        Kind::File => Ok(Layout { directory: beneath(to), name: last_component(path) }),
        Kind::Directory if destination.1 == Kind::File => Err(LayoutError::DirectoryOntoFile),
        // The root of a storage has no name.
        Kind::Directory if path.ends_with('/') || path.is_empty() => {
            Ok(Layout { directory: beneath(to), name: None })
        }
        Kind::Directory => Ok(Layout { directory: beneath(to), name: last_component(path) }),
    }
}

/// Returns whether the last part of the destination's path is the name of the copied file: the destination is a file,
/// or it does not exist and its path does not end with `/`.
fn ends_with_file_name((path, kind): (&str, Kind)) -> bool {
    match kind {
        Kind::File => true,
        Kind::Directory => false,
        Kind::Absent => !path.ends_with('/') && !without_outer_slashes(path).is_empty(),
    }
}

fn without_outer_slashes(path: &str) -> &str {
    path.trim_matches('/')
}

fn last_component(path: &str) -> Option<String> {
    without_outer_slashes(path)
        .rsplit('/')
        .next()
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

#[cfg(test)]
mod tests;

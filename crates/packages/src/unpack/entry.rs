//! Checks whether an entry of an archive may be unpacked. Pure.

use std::{
    ffi::OsStr,
    io::Read,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use tar::EntryType;
use thiserror::Error;

/// Why an entry is refused. A refused entry makes the whole archive refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EntryError {
    #[error(
        "entry {0:?}: its path is absolute or has .. in it, so it may lead out of the job package; pack the entry with a relative path without .."
    )]
    Path(String),
    #[error(
        "entry {entry:?} is a link to {target:?}, which may lead out of the job package; pack the link with a target that has .. only at its start, and not more often than the link has parent directories"
    )]
    Link { entry: String, target: String },
    #[error(
        "entry {entry:?} is of type {kind:?}, and a job package has only regular files, directories and links; pack the archive without this entry"
    )]
    Kind { entry: String, kind: char },
    #[error("entry {0:?} occurs twice; pack it once")]
    Twice(String),
    #[error(
        "entry {0:?}: a parent of its path is not a directory of the archive; pack the entry with another path"
    )]
    NoDirectory(String),
    #[error(
        "entry {0:?} is a hard link, and its target is not a regular file earlier in the archive; pack the file itself"
    )]
    NoFile(String),
}

/// An entry that passed the check.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// A relative path that has at least one component, and neither `.` nor `..`.
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
}

/// The type of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File {
        /// Whether the file is executable.
        is_program: bool,
        /// Time of the last change, in seconds since 1970.
        modified: i64,
    },
    Symlink(PathBuf),
    /// A further name for this file, which is an earlier entry of the archive.
    Hardlink(PathBuf),
}

impl Entry {
    /// Checks an entry. Returns `None` for an entry that creates nothing.
    pub(super) fn check<R: Read>(entry: &tar::Entry<'_, R>) -> Result<Option<Self>, EntryError> {
        let header = entry.header();
        let (path, target) = (entry.path_bytes(), entry.link_name_bytes());
        let modified = header.mtime().ok().and_then(|seconds| i64::try_from(seconds).ok());
        let is_program = header.mode().is_ok_and(|mode| mode & 0o111 != 0);
        let file = Kind::File { is_program, modified: modified.unwrap_or(0) };
        check_parts(header.entry_type(), &path, target.as_deref().unwrap_or_default(), file)
    }

    /// Returns the path as text for messages.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }
}

fn check_parts(
    kind: EntryType,
    path: &[u8],
    target: &[u8],
    file: Kind,
) -> Result<Option<Entry>, EntryError> {
    if kind == EntryType::XGlobalHeader {
        return Ok(None);
    }
    let name = || String::from_utf8_lossy(path).into_owned();
    let place = names_only(path).ok_or_else(|| EntryError::Path(name()))?;
    let link =
        || EntryError::Link { entry: name(), target: String::from_utf8_lossy(target).into_owned() };
    let kind = match kind {
        EntryType::Directory => Kind::Directory,
        // Old archives mark a directory only by a slash at the end of its path.
        EntryType::Regular if path.ends_with(b"/") => Kind::Directory,
        EntryType::Regular | EntryType::Continuous => file,
        EntryType::Symlink if stays_inside(&place, target) => {
            Kind::Symlink(OsStr::from_bytes(target).into())
        }
        EntryType::Link => {
            let target = names_only(target).filter(|target| target.file_name().is_some());
            Kind::Hardlink(target.ok_or_else(link)?)
        }
        EntryType::Symlink => return Err(link()),
        other => {
            return Err(EntryError::Kind { entry: name(), kind: other.as_byte().into() });
        }
    };
    if place.as_os_str().is_empty() {
        // The entry stands for the archive's own directory.
        return if kind == Kind::Directory { Ok(None) } else { Err(EntryError::Path(name())) };
    }
    Ok(Some(Entry { path: place, kind }))
}

/// Returns the path without `.` components; `None` if the path is absolute, has a `..` component, or has a NUL byte.
fn names_only(path: &[u8]) -> Option<PathBuf> {
    let mut names_only = PathBuf::new();
    for part in Path::new(OsStr::from_bytes(path)).components() {
        match part {
            Component::Normal(name) => names_only.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    (!path.contains(&0)).then_some(names_only)
}

/// Returns whether a symbolic link at this place stays inside the archive's directory. `..` may stand only at the start
/// of the link's target, where it leads from the link's own directory to the parents of this directory. A `..` after a
/// name could lead anywhere, because the name may itself be a link.
fn stays_inside(place: &Path, target: &[u8]) -> bool {
    let depth = place.components().count().saturating_sub(1);
    let (mut ups, mut has_name) = (0, false);
    for part in Path::new(OsStr::from_bytes(target)).components() {
        match part {
            Component::Normal(_) => has_name = true,
            Component::CurDir => {}
            Component::ParentDir if !has_name => ups += 1,
            Component::RootDir | Component::ParentDir | Component::Prefix(_) => return false,
        }
    }
    ups <= depth && !target.is_empty() && !target.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_entry(kind: EntryType, path: &str, target: &str) -> Result<Option<Entry>, EntryError> {
        let file = Kind::File { is_program: false, modified: 7 };
        check_parts(kind, path.as_bytes(), target.as_bytes(), file)
    }

    fn path(kind: EntryType, path: &str, target: &str) -> Option<PathBuf> {
        check_entry(kind, path, target).unwrap().map(|entry| entry.path)
    }

    #[test]
    fn an_entry_with_a_path_outside_the_job_package_is_refused() {
        assert_eq!(path(EntryType::Regular, "./a//b", ""), Some("a/b".into()));
        assert_eq!(path(EntryType::Directory, "./", ""), None);
        assert_eq!(path(EntryType::XGlobalHeader, "/pax_global_header", ""), None);
        assert_eq!(
            check_entry(EntryType::Regular, "old/", "").unwrap().unwrap().kind,
            Kind::Directory
        );
        for outside in ["/etc/passwd", "../x", "a/../../x", "a/..", "", ".", "a\0b"] {
            let refused = check_entry(EntryType::Regular, outside, "");
            assert_eq!(refused, Err(EntryError::Path(outside.to_owned())), "{outside}");
        }
    }

    #[test]
    fn a_symbolic_link_goes_up_only_from_its_own_directory_and_not_out_of_the_job_package() {
        let may = |at: &str, target: &str| check_entry(EntryType::Symlink, at, target).is_ok();
        assert!(
            may("l", "a/b") && may("d/l", "../a") && may("a/b/l", "./../../c") && may("l", ".")
        );
        for outside in ["/etc/passwd", "..", "../x", "a/../../x", "a/..", "", "\0"] {
            assert!(!may("l", outside), "{outside}");
        }
        // `d/up` links to the top of the job package, so `d/up/..` would be outside.
        assert!(may("d/up", "..") && !may("m", "d/up/.."));
        assert!(may("a/b/up", "../..") && !may("a/b/m", "up/.."));
        assert!(!may("a/b/l", "../../../c"));
    }

    #[test]
    fn a_hard_link_names_a_file_beneath_the_job_package() {
        let kind = |target: &str| {
            check_entry(EntryType::Link, "l", target).map(|entry| entry.unwrap().kind)
        };
        assert_eq!(kind("./a/b"), Ok(Kind::Hardlink("a/b".into())));
        for outside in ["/etc/passwd", "../x", "a/../x", "", "."] {
            assert!(matches!(kind(outside), Err(EntryError::Link { .. })), "{outside}");
        }
    }

    #[test]
    fn entries_of_other_types_are_refused() {
        for kind in [EntryType::Char, EntryType::Block, EntryType::Fifo, EntryType::GNUSparse] {
            let refused = check_entry(kind, "a", "").unwrap_err();
            assert!(matches!(refused, EntryError::Kind { .. }), "{kind:?}");
        }
    }
}

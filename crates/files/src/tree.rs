//! Removes directory trees of any depth and width that users may have filled. Uses few open files and no recursion.
//!
//! `std::fs::remove_dir_all` recurses and holds one file descriptor for each level. On a tree of 30,000 levels it
//! overflows the stack of the calling thread, or needs more descriptors than a process may have.
//!
//! This crate flattens the tree instead: it moves the subdirectories of a directory to the root of
//! the tree, and then removes the emptied directory. It never leaves the tree through a symbolic link
//! or a mount (openat2(2), `RESOLVE_*`).

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
};

use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2, renameat},
    unistd::{UnlinkatFlags, unlinkat},
};
use thiserror::Error;

/// Maximum number of names to hold in memory at once: a directory may have more entries than fit into memory.
const AT_ONCE: usize = 4096;

/// An entry of the tree that could not be removed.
#[derive(Debug, Error)]
#[error("entry {name:?} of the directory cannot be removed")]
struct UnremovedEntry {
    name: OsString,
    #[source]
    source: Errno,
}

impl From<UnremovedEntry> for io::Error {
    fn from(entry: UnremovedEntry) -> Self {
        let kind = Self::from(entry.source).kind();
        Self::new(kind, entry)
    }
}

/// Removes a directory with all its contents. An entry that cannot be removed stays, and all others are removed. If
/// `path` is a symbolic link, removes the link itself.
///
/// # Errors
/// `NotFound` when the path does not exist; otherwise an error that names the first entry that could not be
/// removed, and the reason.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match open(AT_FDCWD, path.as_os_str(), ResolveFlag::empty()) {
        Ok(root) => {
            Tree { root, unremoved: BTreeSet::new(), moved_up: 0, first: None }
                .remove_contents()?;
        }
        Err(Errno::ELOOP | Errno::ENOTDIR) => {
            return Ok(unlinkat(AT_FDCWD, path, UnlinkatFlags::NoRemoveDir)?);
        }
        Err(errno) => return Err(errno.into()),
    }
    Ok(unlinkat(AT_FDCWD, path, UnlinkatFlags::RemoveDir)?)
}

fn open(at: impl std::os::fd::AsFd, name: &OsStr, resolve: ResolveFlag) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat2(at, name, OpenHow::new().flags(flags).resolve(resolve))
}

/// The tree that is being removed.
struct Tree {
    root: OwnedFd,
    /// Entries of the root that could not be removed.
    unremoved: BTreeSet<OsString>,
    /// Number of directories that were moved to the root.
    moved_up: u64,
    /// The first entry that could not be removed.
    first: Option<UnremovedEntry>,
}

impl Tree {
    /// Removes everything beneath the root.
    fn remove_contents(mut self) -> io::Result<()> {
        loop {
            let names = names(&self.root, &self.unremoved)?;
            if names.is_empty() {
                return self.first.map_or(Ok(()), |first| Err(first.into()));
            }
            for name in names {
                if let Err(errno) = self.remove(&name) {
                    self.unremoved.insert(name.clone());
                    self.first.get_or_insert(UnremovedEntry { name, source: errno });
                }
            }
        }
    }

    /// Removes an entry of the root. The directories in it become entries of the root.
    fn remove(&mut self, name: &OsStr) -> nix::Result<()> {
        if !is_directory_or_remove(&self.root, name)? {
            return Ok(());
        }
        const IN_IT: ResolveFlag = ResolveFlag::RESOLVE_BENEATH
            .union(ResolveFlag::RESOLVE_NO_SYMLINKS)
            .union(ResolveFlag::RESOLVE_NO_XDEV);
        let directory = match open(&self.root, name, IN_IT) {
            // EXDEV means that a file system is mounted on the directory.
            Err(Errno::EXDEV) => return Err(Errno::EBUSY),
            opened => opened?,
        };
        let none = BTreeSet::new();
        loop {
            let names = names(&directory, &none)
                .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or_default()))?;
            if names.is_empty() {
                return unlinkat(&self.root, name, UnlinkatFlags::RemoveDir);
            }
            for name in names {
                if is_directory_or_remove(&directory, &name)? {
                    self.move_up(&directory, &name)?;
                }
            }
        }
    }

    /// Moves a directory to the root, under a name that no entry of the root has yet.
    fn move_up(&mut self, from: &OwnedFd, name: &OsStr) -> nix::Result<()> {
        loop {
            let new = format!(".{}.removed", self.moved_up);
            self.moved_up += 1;
            match renameat(from, name, &self.root, &*new) {
                // The root already has an entry with this name: try the next name.
                Err(Errno::EEXIST | Errno::ENOTEMPTY | Errno::ENOTDIR) => {}
                moved => return moved,
            }
        }
    }
}

/// Removes an entry unless it is a directory; returns true if it is a directory.
fn is_directory_or_remove(at: &OwnedFd, name: &OsStr) -> nix::Result<bool> {
    match unlinkat(at, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(false),
        Err(Errno::EISDIR) => Ok(true),
        Err(errno) => Err(errno),
    }
}

/// Returns the names of at most [`AT_ONCE`] entries of a directory; skips the names in `without`.
fn names(directory: &OwnedFd, without: &BTreeSet<OsString>) -> io::Result<Vec<OsString>> {
    let again = open(directory, OsStr::new("."), ResolveFlag::RESOLVE_BENEATH)?;
    let mut names = Vec::new();
    for entry in Dir::from_fd(again)?.iter() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." && !without.contains(name) {
            names.push(name.to_owned());
        }
        if names.len() == AT_ONCE {
            break;
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests;

//! Observes and changes the symbolic links of an index tree.

use std::{ffi::OsStr, io};

use nix::{
    errno::Errno,
    fcntl::{AtFlags, RenameFlags, readlinkat, renameat, renameat2},
    sys::stat::fstatat,
    unistd::{UnlinkatFlags, symlinkat, unlinkat},
};
use storage::{
    desired::{IndexLink, MountPoint},
    observed::{PathState, TreeEntry, TreeState},
};

use super::directory_entry::{Directory, Leaf, Walk, walk};

/// Name of a new link until it replaces the existing link. One name is enough, because two changes of one tree never
/// run at the same time. A crash may leave the link under this name; the planner then removes it like any other
/// unwanted link.
const TEMPORARY: &str = ".link.new";

pub(super) fn observe(root: &MountPoint) -> io::Result<TreeState> {
    let top = match walk(root)? {
        Walk::Stopped(path) => return Ok(TreeState { path, ..TreeState::default() }),
        Walk::Entry(entry) => entry,
    };
    let Some(leaf) = top.leaf()? else { return Ok(TreeState::default()) };
    // A file system that is mounted on the tree's root is not Warren's to change, and neither are its contents.
    if leaf.mount.is_some() {
        return Ok(TreeState {
            path: PathState::ThroughMount { at: root.path() },
            ..TreeState::default()
        });
    }
    let path = top.state(&leaf, root.path())?;
    let mut state = TreeState { path, ..TreeState::default() };
    if let PathState::Directory { .. } = state.path {
        let directory = top.open_directory()?;
        for name in directory.names()? {
            state.entries.insert(name.to_string_lossy().into_owned(), entry(&directory, &name)?);
        }
    }
    Ok(state)
}

fn entry(directory: &Directory, name: &OsStr) -> io::Result<TreeEntry> {
    match readlinkat(&directory.0, name) {
        Ok(text) => Ok(TreeEntry::Link(text.to_string_lossy().into_owned())),
        // EINVAL: the entry is not a link. ENOENT: the entry was removed meanwhile; the next observation sees that.
        Err(Errno::EINVAL | Errno::ENOENT) => Ok(TreeEntry::Other),
        Err(errno) => Err(errno.into()),
    }
}

/// Creates a link, or atomically replaces an existing link.
pub(super) fn link(root: &MountPoint, link: &IndexLink) -> io::Result<()> {
    let Directory(directory) = open(root)?;
    let name = link.compute().as_str();
    accept_absent(unlinkat(&directory, TEMPORARY, UnlinkatFlags::NoRemoveDir))?;
    symlinkat(link.target(), &directory, TEMPORARY)?;
    // rename(2) would also replace a file, but only a link may be replaced.
    if is_link(&directory, name)? {
        renameat(&directory, TEMPORARY, &directory, name)?;
    } else {
        renameat2(&directory, TEMPORARY, &directory, name, RenameFlags::RENAME_NOREPLACE)?;
    }
    Ok(())
}

/// Removes a link; refuses an entry that is not a link.
pub(super) fn unlink(root: &MountPoint, name: &str) -> io::Result<()> {
    let Directory(directory) = open(root)?;
    if is_link(&directory, name)? {
        accept_absent(unlinkat(&directory, name, UnlinkatFlags::NoRemoveDir))?;
    }
    Ok(())
}

fn open(root: &MountPoint) -> io::Result<Directory> {
    match walk(root)? {
        Walk::Entry(entry) => match entry.leaf()? {
            Some(Leaf { mount: None, .. }) => entry.open_directory(),
            _ => Err(Errno::ENOENT.into()),
        },
        Walk::Stopped(_) => Err(Errno::ENOENT.into()),
    }
}

fn is_link(directory: &std::os::fd::OwnedFd, name: &str) -> io::Result<bool> {
    match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(stat.st_mode & libc::S_IFMT == libc::S_IFLNK),
        Err(Errno::ENOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn accept_absent(result: nix::Result<()>) -> nix::Result<()> {
    match result {
        Err(Errno::ENOENT) => Ok(()),
        other => other,
    }
}

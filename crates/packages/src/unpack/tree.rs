//! The directory that an archive is unpacked into. Every path is opened component by component, each from the directory
//! before it, and no component may be a link.

use std::{
    ffi::OsStr,
    fs::{DirBuilder, File, Permissions},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, PermissionsExt},
    },
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, open, openat},
    sys::{
        stat::{Mode, SFlag, fchmod, fstatat, futimens, mkdirat},
        time::TimeSpec,
    },
    unistd::{linkat, symlinkat, syncfs},
};

/// Mode of directories and programs: every user may read and execute them.
const EXECUTABLE_MODE: u32 = 0o755;
/// Mode of other files: every user may read them.
const READABLE_MODE: u32 = 0o644;

/// A directory that an archive is unpacked into.
#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
}

impl Tree {
    /// Creates the directory that an archive is unpacked into. The directory must not exist.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        DirBuilder::new().mode(EXECUTABLE_MODE).create(path)?;
        let root = open(path, directory_flags(), Mode::empty())?;
        fchmod(&root, Mode::from_bits_truncate(EXECUTABLE_MODE))?;
        Ok(Self { root })
    }

    /// Creates a subdirectory, unless it exists.
    pub(super) fn directory(&self, path: &Path) -> io::Result<()> {
        self.enter(path, true).map(drop)
    }

    /// Creates an empty file, which must not exist.
    pub(super) fn file(&self, path: &Path) -> io::Result<File> {
        let (parent, name) = self.parent(path)?;
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_NOFOLLOW;
        let mode = Mode::from_bits_truncate(0o600);
        Ok(openat(&parent, name, flags | OFlag::O_CLOEXEC, mode)?.into())
    }

    /// Creates a symbolic link, which must not exist.
    pub(super) fn symlink(&self, path: &Path, target: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(symlinkat(target, &parent, name)?)
    }

    /// Creates a hard link, which must not exist. Returns false, and creates nothing, if the target is no plain file.
    pub(super) fn hardlink(&self, path: &Path, target: &Path) -> io::Result<bool> {
        let (from, old) = match (target.parent(), target.file_name()) {
            (Some(parent), Some(name)) => (self.enter(parent, false), name),
            _ => return Ok(false),
        };
        let from = match from {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            from => from?,
        };
        // Refuses a hard link to a symbolic link. A hard link in another directory has the same target text; if the
        // target is relative, it would lead from there to another place, which may be outside.
        let is_file = match fstatat(&from, old, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(status) => status.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits(),
            Err(Errno::ENOENT) => false,
            Err(errno) => return Err(errno.into()),
        };
        if is_file {
            let (to, new) = self.parent(path)?;
            linkat(&from, old, &to, new, AtFlags::empty())?;
        }
        Ok(is_file)
    }

    /// Returns once the whole tree is on disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(syncfs(&self.root)?)
    }

    fn parent<'a>(&self, path: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.enter(path.parent().unwrap_or(Path::new("")), true)?, name))
    }

    /// Opens a directory. With `makes`, creates the directories of the path that are missing.
    fn enter(&self, path: &Path, makes: bool) -> io::Result<OwnedFd> {
        let mut at = self.root.try_clone()?;
        for name in path {
            if makes {
                match mkdirat(&at, name, Mode::from_bits_truncate(EXECUTABLE_MODE)) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            at = openat(&at, name, directory_flags(), Mode::empty())?;
            if makes {
                fchmod(&at, Mode::from_bits_truncate(EXECUTABLE_MODE))?;
            }
        }
        Ok(at)
    }
}

/// Sets the mode and the time of a file whose content is complete.
pub(super) fn finish(file: &File, is_program: bool, modified: i64) -> io::Result<()> {
    let mode = if is_program { EXECUTABLE_MODE } else { READABLE_MODE };
    file.set_permissions(Permissions::from_mode(mode))?;
    let modified = TimeSpec::new(modified, 0);
    Ok(futimens(file, &modified, &modified)?)
}

fn directory_flags() -> OFlag {
    OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_RDONLY | OFlag::O_CLOEXEC
}

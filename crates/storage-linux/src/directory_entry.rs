//! Paths beneath an allowed root, opened without following a symbolic link and without passing through another mount.
//!
//! Users own the directories inside a mount, so the agent never opens a path that leads through a mount (openat2(2),
//! `RESOLVE_*`).

mod leaf;

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
    sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstat, mkdirat},
    unistd::{UnlinkatFlags, unlinkat},
};
use process::bounded;
use storage::{
    desired::{MountPoint, Owner},
    observed::PathState,
};

pub(super) use self::leaf::Leaf;

/// A name in a directory. The directory is held open, so that the name leads to the same place even when a user
/// replaces a directory further up in the path.
#[derive(Debug)]
pub(super) struct DirectoryEntry {
    /// The directory, held open.
    pub(super) parent: OwnedFd,
    pub(super) name: OsString,
}

/// The place where a walk along a path ended.
#[derive(Debug)]
pub(super) enum Walk {
    Entry(DirectoryEntry),
    /// The walk ended above the entry, for this reason.
    Stopped(PathState),
}

/// Mode of directories for mount points: users pass through them.
const MODE: Mode = Mode::from_bits_truncate(0o755);

const BENEATH: ResolveFlag = ResolveFlag::RESOLVE_BENEATH
    .union(ResolveFlag::RESOLVE_NO_SYMLINKS)
    .union(ResolveFlag::RESOLVE_NO_MAGICLINKS);

pub(super) fn walk(target: &MountPoint) -> io::Result<Walk> {
    let Some(mut parent) = open_root(target.root())? else {
        return Ok(Walk::Stopped(PathState::Absent));
    };
    let mut at = target.root().to_owned();
    let (above, name) = split(target);
    for part in above.components() {
        at.push(part);
        match descend(&parent, part.as_os_str(), &at)? {
            Ok(next) => parent = next,
            Err(state) => return Ok(Walk::Stopped(state)),
        }
    }
    Ok(Walk::Entry(DirectoryEntry { parent, name }))
}

/// Walks to the parent of `target` and creates missing directories, mode 0755.
pub(super) fn walk_making(target: &MountPoint) -> io::Result<Walk> {
    fs::create_dir_all(target.root())?;
    let mut walked = walk(target)?;
    if let Walk::Stopped(PathState::Absent) = walked {
        if let Some(parent) = target.parent() {
            match walk_making(&parent)? {
                Walk::Entry(entry) => entry.make_directory()?,
                stopped @ Walk::Stopped(_) => return Ok(stopped),
            }
        }
        walked = walk(target)?;
    }
    Ok(walked)
}

fn split(target: &MountPoint) -> (&Path, OsString) {
    let above = target.below().parent().unwrap_or(Path::new(""));
    (above, target.below().file_name().unwrap_or_default().to_owned())
}

fn open_root(root: &Path) -> io::Result<Option<OwnedFd>> {
    // The admin chose the root, so symbolic links in the root's own path are followed.
    match nix::fcntl::open(
        root,
        OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        Mode::empty(),
    ) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn descend(parent: &OwnedFd, name: &OsStr, at: &Path) -> io::Result<Result<OwnedFd, PathState>> {
    let here = || at.to_owned();
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
        .resolve(BENEATH | ResolveFlag::RESOLVE_NO_XDEV);
    match openat2(parent, name, how) {
        Ok(next) => Ok(match kind(&fstat(&next)?) {
            SFlag::S_IFDIR => Ok(next),
            SFlag::S_IFLNK => Err(PathState::Symlink { at: here() }),
            _ => Err(PathState::NotDirectory { at: here() }),
        }),
        Err(Errno::ENOENT) => Ok(Err(PathState::Absent)),
        Err(Errno::EXDEV) => Ok(Err(PathState::ThroughMount { at: here() })),
        Err(errno) => Err(errno.into()),
    }
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

impl DirectoryEntry {
    /// Opens the file, directory, device or mount at this entry; `None` when the name does not exist.
    pub(super) fn leaf(&self) -> io::Result<Option<Leaf>> {
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
            .resolve(BENEATH);
        let fd = match openat2(&self.parent, self.name.as_os_str(), how) {
            Ok(fd) => fd,
            Err(Errno::ENOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        Leaf::new(fd, &self.parent).map(Some)
    }

    /// Opens the leaf within `deadline`, in the middle of a step: statx(2) on the root of a GFS2 needs a lock that
    /// another node may hold.
    pub(super) fn leaf_within(
        &self,
        target: &MountPoint,
        deadline: Duration,
    ) -> io::Result<Option<Leaf>> {
        let (parent, name) = (self.parent.try_clone()?, self.name.clone());
        let entry = Self { parent, name };
        bounded::within(deadline, &target.to_string(), move || entry.leaf())?
    }

    pub(super) fn state(&self, leaf: &Leaf, path: PathBuf) -> io::Result<PathState> {
        Ok(match leaf.kind {
            SFlag::S_IFDIR => PathState::Directory {
                empty: leaf.mount.is_none() && self.open_directory()?.is_empty()?,
            },
            SFlag::S_IFREG => PathState::File { empty: leaf.mount.is_none() && leaf.size == 0 },
            SFlag::S_IFLNK => PathState::Symlink { at: path },
            SFlag::S_IFBLK => PathState::BlockDevice,
            _ => PathState::Other,
        })
    }

    /// Opens the directory at this entry to read or change it; refuses the root of a mount.
    pub(super) fn open_directory(&self) -> io::Result<Directory> {
        let how = OpenHow::new()
            .flags(OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
            .resolve(BENEATH | ResolveFlag::RESOLVE_NO_XDEV);
        Ok(Directory(openat2(&self.parent, self.name.as_os_str(), how)?))
    }

    /// Returns whether the leaf is an empty directory with the owner and mode that [`Self::make_directory`] sets.
    pub(super) fn is_made_and_empty(&self, leaf: &Leaf) -> io::Result<bool> {
        let is_made = leaf.kind == SFlag::S_IFDIR
            && leaf.owner == Owner { uid: 0, gid: 0 }
            && leaf.mode == MODE
            && leaf.mount.is_none();
        Ok(is_made && self.open_directory()?.is_empty()?)
    }

    /// Creates a directory here, mode 0755; succeeds when the name exists.
    pub(super) fn make_directory(&self) -> io::Result<()> {
        let mode = MODE;
        match mkdirat(&self.parent, self.name.as_os_str(), mode) {
            // Users pass through this directory, so its mode must not depend on the agent's umask.
            Ok(()) => Ok(fchmodat(
                &self.parent,
                self.name.as_os_str(),
                mode,
                FchmodatFlags::NoFollowSymlink,
            )?),
            Err(Errno::EEXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Creates an empty file here, mode 0644; succeeds when the name exists.
    pub(super) fn make_file(&self) -> io::Result<()> {
        let how = OpenHow::new()
            .flags(OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC)
            .mode(Mode::from_bits_truncate(0o644))
            .resolve(BENEATH);
        match openat2(&self.parent, self.name.as_os_str(), how) {
            Ok(_) | Err(Errno::EEXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes an empty directory or an empty file; refuses a directory or file that has contents.
    pub(super) fn remove_empty(&self) -> io::Result<()> {
        let Some(leaf) = self.leaf()? else { return Ok(()) };
        let flag = match leaf.kind {
            _ if leaf.mount.is_some() => return Ok(()),
            SFlag::S_IFDIR => UnlinkatFlags::RemoveDir,
            SFlag::S_IFREG if leaf.size == 0 => UnlinkatFlags::NoRemoveDir,
            _ => return Ok(()),
        };
        drop(leaf);
        match unlinkat(&self.parent, self.name.as_os_str(), flag) {
            Ok(()) | Err(Errno::ENOENT | Errno::ENOTEMPTY | Errno::EEXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns a path to this entry that starts at the open parent directory, so that it stays valid when a directory
    /// further up is replaced.
    pub(super) fn path(&self) -> PathBuf {
        fd_path(&self.parent).join(&self.name)
    }
}

/// Returns a path to an open file, which stays valid when the file is renamed.
pub(super) fn fd_path(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// A directory that may be read and changed.
#[derive(Debug)]
pub(super) struct Directory(pub(super) OwnedFd);

impl Directory {
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        let copy = nix::dir::Dir::from_fd(self.0.try_clone()?)?;
        let mut names = Vec::new();
        for entry in copy {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.names()?.is_empty())
    }
}

//! Reads and writes a file of Warren's in the root of a mount. A user owns the directories in a mount, so this module
//! follows no link there and trusts no contents.

use std::{
    fs::{File, Permissions},
    io::{self, Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{MetadataExt, PermissionsExt, fchown},
    },
    time::Duration,
};

use block_devices::call;
use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2, renameat},
    sys::stat::Mode,
    unistd::{UnlinkatFlags, unlinkat},
};
use storage::{
    desired::{MountPoint, Owner, RootFile},
    host::StepError,
};

use super::directory_entry::{DirectoryEntry, Leaf, Walk, walk};

/// Maximum bytes of the file; Warren never writes more.
const LONGEST: u64 = 1 << 20;

/// Reads the file in the root of the mount at `target`; `None` when the name is not a plain file, or
/// when nothing is mounted.
pub(super) fn read(target: &MountPoint, name: &str) -> io::Result<Option<RootFile>> {
    match mounted(target, DirectoryEntry::leaf)? {
        Some(leaf) => read_in(&open_root(&leaf.fd)?, name),
        None => Ok(None),
    }
}

/// Writes the file completely or not at all. Refuses to write into the bare mount point when the mount was unmounted.
pub(super) fn write(
    target: &MountPoint,
    file: &RootFile,
    deadline: Duration,
) -> Result<(), StepError> {
    let at = format!("{target}/{}", file.name);
    let failed = StepError::system("open(2)", target);
    let look = |entry: &DirectoryEntry| entry.leaf_within(target, deadline);
    let Some(leaf) = mounted(target, look).map_err(failed)? else {
        return Err(StepError::Changed(format!("{target} is no longer mounted")));
    };
    call::run("write", &at, deadline, &[leaf.fd.as_raw_fd()], || {
        write_in(&open_root(&leaf.fd)?, file)
    })
}

fn mounted(
    target: &MountPoint,
    look: impl FnOnce(&DirectoryEntry) -> io::Result<Option<Leaf>>,
) -> io::Result<Option<Leaf>> {
    match walk(target)? {
        Walk::Entry(entry) => Ok(look(&entry)?.filter(|leaf| leaf.mount.is_some())),
        Walk::Stopped(_) => Ok(None),
    }
}

fn open_root(leaf: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(openat(leaf, ".", flags, Mode::empty())?)
}

fn read_in(root: &OwnedFd, name: &str) -> io::Result<Option<RootFile>> {
    // Without O_NONBLOCK, the open of a FIFO would block.
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)
        .resolve(
            ResolveFlag::RESOLVE_BENEATH
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::RESOLVE_NO_XDEV,
        );
    let file = match openat2(root, name, how) {
        Ok(fd) => File::from(fd),
        // ENXIO: the name is a socket.
        Err(Errno::ENOENT | Errno::ELOOP | Errno::EXDEV | Errno::ENXIO) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(Some(RootFile {
        name: name.to_owned(),
        text: String::from_utf8_lossy(&text).into_owned(),
        owner: Owner { uid: metadata.uid(), gid: metadata.gid() },
    }))
}

/// Writes the file under another name and renames it: a reader sees the whole new or the whole old file.
fn write_in(root: &OwnedFd, file: &RootFile) -> io::Result<()> {
    let new = format!("{}.new", file.name);
    // A file with this name may exist: a crash may have left it, or the user may have created it.
    remove(root, &new)?;
    let written = fill(root, &new, file)
        .and_then(|()| Ok(renameat(root, new.as_str(), root, file.name.as_str())?));
    if written.is_err() {
        // Ignore an error of the removal: the caller gets the error of the write, which matters more.
        let _ = remove(root, &new);
    }
    written
}

fn fill(root: &OwnedFd, name: &str, file: &RootFile) -> io::Result<()> {
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut new = File::from(openat(root, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?);
    new.write_all(file.text.as_bytes())?;
    fchown(&new, Some(file.owner.uid), Some(file.owner.gid))?;
    new.set_permissions(Permissions::from_mode(0o644))?;
    new.sync_all()
}

fn remove(root: &OwnedFd, name: &str) -> io::Result<()> {
    match unlinkat(root, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path};

    use nix::unistd::{getegid, geteuid, mkfifo};

    use super::*;

    const NAME: &str = ".nnf-servers.json";

    fn file(text: &str) -> RootFile {
        let owner = Owner { uid: geteuid().as_raw(), gid: getegid().as_raw() };
        RootFile { name: NAME.into(), text: text.into(), owner }
    }

    fn root(path: &Path) -> OwnedFd {
        File::open(path).unwrap().into()
    }

    fn names(path: &Path) -> Vec<String> {
        let names = fs::read_dir(path).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_written_file_is_read_back_and_is_readable_for_all() {
        let directory = tempfile::tempdir().unwrap();
        let at = root(directory.path());
        assert_eq!(read_in(&at, NAME).unwrap(), None);
        for text in ["{\"ost\":[\"rabbit-1\"]}\n", "{}\n"] {
            write_in(&at, &file(text)).unwrap();
            assert_eq!(read_in(&at, NAME).unwrap(), Some(file(text)));
        }
        let mode = fs::metadata(directory.path().join(NAME)).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o644);
        assert_eq!(names(directory.path()), [NAME]);
    }

    #[test]
    fn links_are_not_followed_and_leftovers_of_a_crash_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let (at, outside) = (root(directory.path()), tempfile::NamedTempFile::new().unwrap());
        fs::write(&outside, "keep").unwrap();
        let new = format!("{NAME}.new");
        for name in [NAME, &new] {
            symlink(outside.path(), directory.path().join(name)).unwrap();
        }
        assert_eq!(read_in(&at, NAME).unwrap(), None);
        write_in(&at, &file("ours")).unwrap();
        assert_eq!(read_in(&at, NAME).unwrap(), Some(file("ours")));
        assert_eq!(fs::read_to_string(outside).unwrap(), "keep");
        assert_eq!(names(directory.path()), [NAME]);
    }

    #[test]
    fn only_plain_files_are_read_and_a_directory_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let at = root(directory.path());
        mkfifo(&directory.path().join("fifo"), Mode::S_IRWXU).unwrap();
        assert_eq!(read_in(&at, "fifo").unwrap(), None);
        fs::create_dir(directory.path().join(NAME)).unwrap();
        assert_eq!(read_in(&at, NAME).unwrap(), None);
        let error = write_in(&at, &file("ours")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EISDIR));
        assert_eq!(names(directory.path()), [NAME, "fifo"]);
    }
}

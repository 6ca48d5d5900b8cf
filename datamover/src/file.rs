//! Copies one file under a temporary name, and renames the copy when it is complete.

use std::{
    ffi::CStr,
    fs::File,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use rustix::{
    fs::{
        AtFlags, FileType, Mode, OFlags, Stat, fchmod, fstat, ftruncate, futimens, linkat, openat,
        renameat, statat, unlinkat,
    },
    io::{Errno, Result},
};

use crate::{
    data::{Fault, Pair, bytes_of_data, has_holes},
    folder::Folder,
    large,
    links::{self, Action, Name},
    metadata,
    mover::{Mover, Worker},
    special,
};

const OPEN: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
const NEW: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// An open source file, and the name of its copy.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) folder: Arc<Folder>,
    /// Path in the source, for messages.
    pub(crate) from: Vec<u8>,
    /// Name in the target folder.
    pub(crate) to: std::ffi::CString,
    pub(crate) source: File,
    pub(crate) stat: Stat,
}

/// Copies an entry that was a regular file when its folder was read. An entry of another type may have taken its place
/// since.
pub(crate) fn copy(mover: &Arc<Mover>, worker: &mut Worker, folder: &Arc<Folder>, name: &CStr) {
    let path = || folder.path_of(name);
    let opened = openat(&folder.source, name, OPEN, Mode::empty())
        .and_then(|source| fstat(&source).map(|stat| (source, stat)));
    match opened {
        Ok((_, stat)) if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {
            special::copy(mover, worker, folder, name, &stat);
        }
        Ok((source, stat)) => {
            let (from, to) = (path(), name.to_owned());
            let folder = folder.clone();
            copy_opened(mover, worker, Opened { folder, from, to, source: source.into(), stat });
        }
        Err(errno) => mover.fail(&path(), "open", errno),
    }
}

/// Copies an open file; or, if the same inode was copied already under another name, hard-links this name to that copy.
pub(crate) fn copy_opened(mover: &Arc<Mover>, worker: &mut Worker, file: Opened) {
    if file.stat.st_nlink < 2 {
        return copy_data(mover, worker, file);
    }
    let name = (file.folder.clone(), file.to.clone());
    match mover.links.add_name(&file.stat, name) {
        Action::Copy | Action::CopyAlone => copy_data(mover, worker, file),
        Action::Link(path) => {
            large::remove_stale(mover, &file.folder, &file.to);
            link(mover, worker, &path, &(file.folder, file.to));
        }
        Action::Nothing => large::remove_stale(mover, &file.folder, &file.to),
    }
}

fn copy_data(mover: &Arc<Mover>, worker: &mut Worker, file: Opened) {
    if is_copied_already(mover, &file) {
        large::remove_stale(mover, &file.folder, &file.to);
        mover.counters.add_kept_file(bytes_of_data(&file.stat));
        link_names(mover, worker, &file, true);
    } else if file.stat.st_size.cast_unsigned() > mover.order.block {
        large::begin(mover, worker, file);
    } else {
        copy_small(mover, worker, &file);
    }
}

/// Whether an earlier run completed the copy and renamed it to its final name.
fn is_copied_already(mover: &Mover, file: &Opened) -> bool {
    let Some(resume) = &mover.resume else { return false };
    let copy = statat(&file.folder.target, &file.to, AtFlags::SYMLINK_NOFOLLOW);
    copy.is_ok_and(|copy| {
        FileType::from_raw_mode(copy.st_mode) == FileType::RegularFile
            && resume.is_complete(&file.stat, &copy)
    })
}

fn copy_small(mover: &Arc<Mover>, worker: &mut Worker, file: &Opened) {
    let temporary = mover.temporary(worker.slot);
    let copied = worker
        .note_folder(mover, &file.folder)
        .and_then(|()| create(mover, &file.folder, &temporary, &file.stat))
        .map_err(Fault::Write)
        .and_then(|copy| {
            let pair = Pair { source: &file.source, copy: &copy, stat: &file.stat };
            if !pair.share_blocks(mover)? {
                let size = file.stat.st_size.cast_unsigned();
                if has_holes(&file.stat) {
                    ftruncate(&copy, size).map_err(Fault::Write)?;
                }
                pair.copy(mover, &mut worker.buffer, 0, size)?;
            }
            put_in_place(mover, file, &copy, &temporary).map_err(Fault::Write)
        });
    if let Err(fault) = copied {
        let _ = unlinkat(&file.folder.target, &temporary, AtFlags::empty());
        mover.fail_data(&file.from, fault);
    }
    link_names(mover, worker, file, copied.is_ok());
}

/// Creates a temporary file. Replaces a temporary file that an earlier run left under this name.
pub(crate) fn create(mover: &Mover, folder: &Folder, name: &str, stat: &Stat) -> Result<File> {
    // fsetxattr(2) needs write permission.
    let mode =
        if mover.order.copies_xattrs { Mode::RUSR | Mode::WUSR } else { metadata::mode(stat) };
    let mode = mode - (Mode::SUID | Mode::SGID | Mode::SVTX);
    match openat(&folder.target, name, NEW, mode) {
        Err(Errno::EXIST) => {
            unlinkat(&folder.target, name, AtFlags::empty())?;
            openat(&folder.target, name, NEW, mode).map(File::from)
        }
        created => created.map(File::from),
    }
}

/// Sets the metadata of a complete copy, renames the copy to its final name, and counts it.
pub(crate) fn put_in_place(
    mover: &Mover,
    file: &Opened,
    copy: &File,
    temporary: &str,
) -> Result<()> {
    if mover.order.copies_xattrs {
        metadata::finish(mover, &file.source, copy, &file.stat)?;
    } else {
        if metadata::mode(&file.stat).intersects(Mode::SUID | Mode::SGID | Mode::SVTX) {
            fchmod(copy, metadata::mode(&file.stat))?;
        }
        futimens(copy, &metadata::times(&file.stat))?;
    }
    let folder = &file.folder.target;
    renameat(folder, temporary, folder, &file.to)?;
    mover.counters.files.fetch_add(1, Relaxed);
    list_if_changed(mover, file);
    Ok(())
}

/// Adds a source that changed during the copy to the list of failures: the copy may mix old and new data.
fn list_if_changed(mover: &Mover, file: &Opened) {
    let is_unchanged = |now: Stat| {
        let times = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
        times(&now) == times(&file.stat)
    };
    if !fstat(&file.source).is_ok_and(is_unchanged) {
        mover.counters.changed.fetch_add(1, Relaxed);
        mover.failures.add(
            &file.from,
            "read",
            None,
            "the file changed while it was copied".to_owned(),
        );
    }
}

/// Creates the hard links that waited for a file's copy. If the copy failed, lists these links as failed.
pub(crate) fn link_names(mover: &Mover, worker: &mut Worker, file: &Opened, is_copied: bool) {
    if file.stat.st_nlink < 2 {
        return;
    }
    let key = links::key(&file.stat);
    if is_copied {
        let path = file.folder.target_of(&file.to);
        for name in mover.links.copied(key, path.clone()) {
            link(mover, worker, &path, &name);
        }
        return;
    }
    for (folder, name) in mover.links.failed(key) {
        mover.counters.failed.fetch_add(1, Relaxed);
        let why =
            format!("its hard link {} could not be copied", String::from_utf8_lossy(&file.from));
        mover.failures.add(&folder.path_of(&name), "link", None, why);
    }
}

/// Hard-links a copy to another name. Replaces an existing entry with that name, as copying a file does.
fn link(mover: &Mover, worker: &mut Worker, path: &[u8], (folder, name): &Name) {
    let target = &folder.target;
    let linked = match linkat(&mover.root, path, target, &**name, AtFlags::empty()) {
        Err(Errno::EXIST) => replace(mover, worker, path, folder, name),
        linked => linked,
    };
    match linked {
        Ok(()) => {
            mover.counters.links.fetch_add(1, Relaxed);
        }
        Err(errno) => mover.fail_write(&folder.path_of(name), "link", errno),
    }
}

/// Hard-links a copy to a temporary name, and renames the link to the final name.
fn replace(
    mover: &Mover,
    worker: &mut Worker,
    path: &[u8],
    folder: &Folder,
    name: &CStr,
) -> Result<()> {
    let (target, temporary) = (&folder.target, mover.temporary(worker.slot));
    worker.note_folder(mover, folder)?;
    let _ = unlinkat(target, &temporary, AtFlags::empty());
    linkat(&mover.root, path, target, &temporary, AtFlags::empty())?;
    let renamed = renameat(target, &temporary, target, name);
    // rename(2) does nothing and leaves both names when they are hard links of the same file, so the temporary name is
    // removed here in any case.
    let _ = unlinkat(target, &temporary, AtFlags::empty());
    renamed
}

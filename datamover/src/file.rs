//! Copies one file: under a temporary name, renamed when it is whole.

use std::{
    ffi::CStr,
    fs::File,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use rustix::{
    fs::{
        AtFlags, FileType, Mode, OFlags, Stat, fchmod, fstat, futimens, linkat, openat, renameat,
        statat, unlinkat,
    },
    io::{Errno, Result},
};

use crate::{
    data::{Fault, Pair, bytes_of_data},
    folder::Folder,
    large,
    links::{self, Name, Turn},
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

/// A source file that is open, and the name of its copy.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) folder: Arc<Folder>,
    /// Name in the source, for messages.
    pub(crate) from: Vec<u8>,
    /// Name in the target folder.
    pub(crate) to: std::ffi::CString,
    pub(crate) source: File,
    pub(crate) stat: Stat,
}

/// Copies an entry of a folder that was a file when the folder was read.
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

/// Copies an open file, or links its name to a copy that another name of it has.
pub(crate) fn copy_opened(mover: &Arc<Mover>, worker: &mut Worker, file: Opened) {
    if file.stat.st_nlink < 2 {
        return copy_data(mover, worker, file);
    }
    let name = (file.folder.clone(), file.to.clone());
    match mover.links.meet(&file.stat, name) {
        Turn::Copy | Turn::CopyAlone => copy_data(mover, worker, file),
        Turn::Link(path) => {
            large::forget(mover, &file.folder, &file.to);
            link(mover, worker, &path, &(file.folder, file.to));
        }
        Turn::Waits => large::forget(mover, &file.folder, &file.to),
    }
}

fn copy_data(mover: &Arc<Mover>, worker: &mut Worker, file: Opened) {
    if is_kept(mover, &file) {
        large::forget(mover, &file.folder, &file.to);
        mover.counters.keep(bytes_of_data(&file.stat));
        link_names(mover, worker, &file, true);
    } else if file.stat.st_size.cast_unsigned() > mover.order.block {
        large::begin(mover, worker, file);
    } else {
        copy_small(mover, worker, &file);
    }
}

/// Whether an earlier run put a whole copy in place.
fn is_kept(mover: &Mover, file: &Opened) -> bool {
    let Some(resume) = &mover.resume else { return false };
    let copy = statat(&file.folder.target, &file.to, AtFlags::SYMLINK_NOFOLLOW);
    copy.is_ok_and(|copy| {
        FileType::from_raw_mode(copy.st_mode) == FileType::RegularFile
            && resume.is_whole(&file.stat, &copy)
    })
}

fn copy_small(mover: &Arc<Mover>, worker: &mut Worker, file: &Opened) {
    let temporary = mover.temporary(worker.slot);
    let copied = worker
        .note(mover, &file.folder)
        .and_then(|()| create(mover, &file.folder, &temporary, &file.stat))
        .map_err(Fault::Write)
        .and_then(|copy| {
            let pair = Pair { source: &file.source, copy: &copy, stat: &file.stat };
            pair.copy(mover, &mut worker.buffer, 0, file.stat.st_size.cast_unsigned())?;
            put_in_place(mover, file, &copy, &temporary).map_err(Fault::Write)
        });
    if let Err(fault) = copied {
        let _ = unlinkat(&file.folder.target, &temporary, AtFlags::empty());
        mover.fail_data(&file.from, fault);
    }
    link_names(mover, worker, file, copied.is_ok());
}

/// Makes a temporary file. One that an earlier run left is replaced.
pub(crate) fn create(mover: &Mover, folder: &Folder, name: &str, stat: &Stat) -> Result<File> {
    // Extended attributes can only be set on what can be written.
    let mode =
        if mover.order.copies_xattrs { Mode::RUSR | Mode::WUSR } else { metadata::mode(stat) };
    let mode = mode - (Mode::SUID | Mode::SGID | Mode::SVTX);
    match openat(&folder.target, name, NEW, mode) {
        Err(Errno::EXIST) => {
            unlinkat(&folder.target, name, AtFlags::empty())?;
            openat(&folder.target, name, NEW, mode).map(File::from)
        }
        made => made.map(File::from),
    }
}

/// Gives a whole copy its metadata and its name, and counts it.
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
    note_change(mover, file);
    Ok(())
}

/// Says that a source changed while it was copied: its copy may be neither the old nor the new file.
fn note_change(mover: &Mover, file: &Opened) {
    let is_same = |now: Stat| {
        let times = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
        times(&now) == times(&file.stat)
    };
    if !fstat(&file.source).is_ok_and(is_same) {
        mover.counters.changed.fetch_add(1, Relaxed);
        mover.failures.add(
            &file.from,
            "read",
            None,
            "the file changed while it was copied".to_owned(),
        );
    }
}

/// Links the names that waited for a file's copy.
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
            format!("another name of it, {}, was not copied", String::from_utf8_lossy(&file.from));
        mover.failures.add(&folder.path_of(&name), "link", None, why);
    }
}

/// Gives a copy another name. A name that is taken is replaced, as a file is.
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

fn replace(
    mover: &Mover,
    worker: &mut Worker,
    path: &[u8],
    folder: &Folder,
    name: &CStr,
) -> Result<()> {
    let (target, temporary) = (&folder.target, mover.temporary(worker.slot));
    worker.note(mover, folder)?;
    let _ = unlinkat(target, &temporary, AtFlags::empty());
    linkat(&mover.root, path, target, &temporary, AtFlags::empty())?;
    let renamed = renameat(target, &temporary, target, name);
    // Two names of one file: rename(2) leaves both.
    let _ = unlinkat(target, &temporary, AtFlags::empty());
    renamed
}

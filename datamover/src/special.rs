//! Symbolic links, FIFOs and sockets: made anew with the same content. A device is refused by the kernel, which lets no user make one.

use std::{
    ffi::{CStr, CString},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use rustix::{
    fs::{
        AtFlags, FileType, Stat, mknodat, readlinkat, renameat, statat, symlinkat, unlinkat,
        utimensat,
    },
    io::{Errno, Result},
};

use crate::{
    folder::Folder,
    metadata,
    mover::{Mover, Worker},
};

/// Copies an entry that is neither a file nor a directory.
pub(crate) fn copy(
    mover: &Mover,
    worker: &mut Worker,
    folder: &Arc<Folder>,
    name: &CStr,
    stat: &Stat,
) {
    let made = if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        copy_link(mover, worker, folder, name)
    } else {
        copy_node(mover, worker, folder, name, stat)
    };
    let made = made.and_then(|()| {
        utimensat(&folder.target, name, &metadata::times(stat), AtFlags::SYMLINK_NOFOLLOW)
    });
    match made {
        Ok(()) => {
            mover.counters.links.fetch_add(1, Relaxed);
        }
        Err(errno) => mover.fail_write(&folder.path_of(name), "create", errno),
    }
}

/// Returns what an entry is, without following it.
pub(crate) fn stat(folder: &Folder, name: &CStr) -> Result<Stat> {
    statat(&folder.source, name, AtFlags::SYMLINK_NOFOLLOW)
}

fn copy_link(mover: &Mover, worker: &mut Worker, folder: &Folder, name: &CStr) -> Result<()> {
    let content = readlinkat(&folder.source, name, Vec::new())?;
    place(mover, worker, folder, name, |name| symlinkat(&content, &folder.target, name))
}

fn copy_node(
    mover: &Mover,
    worker: &mut Worker,
    folder: &Folder,
    name: &CStr,
    stat: &Stat,
) -> Result<()> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    let make =
        |name: &CStr| mknodat(&folder.target, name, kind, metadata::mode(stat), stat.st_rdev);
    place(mover, worker, folder, name, make)
}

/// Makes an entry under its name, or, where that is taken, under a temporary one that then replaces it.
fn place(
    mover: &Mover,
    worker: &mut Worker,
    folder: &Folder,
    name: &CStr,
    make: impl Fn(&CStr) -> Result<()>,
) -> Result<()> {
    match make(name) {
        Err(Errno::EXIST) => {}
        made => return made,
    }
    let temporary = CString::new(mover.temporary(worker.slot)).map_err(|_| Errno::INVAL)?;
    worker.note(mover, folder)?;
    let _ = unlinkat(&folder.target, &temporary, AtFlags::empty());
    make(&temporary)?;
    let placed = renameat(&folder.target, &temporary, &folder.target, name);
    if placed.is_err() {
        let _ = unlinkat(&folder.target, &temporary, AtFlags::empty());
    }
    placed
}

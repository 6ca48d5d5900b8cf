//! Creates copies of symbolic links, FIFOs and sockets. A device is reported as not copied: the kernel lets only root
//! create one.

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
    let created = if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        copy_link(mover, worker, folder, name)
    } else {
        copy_node(mover, worker, folder, name, stat)
    };
    let created = created.and_then(|()| {
        utimensat(&folder.target, name, &metadata::times(stat), AtFlags::SYMLINK_NOFOLLOW)
    });
    match created {
        Ok(()) => {
            mover.counters.links.fetch_add(1, Relaxed);
        }
        Err(errno) => mover.fail_write(&folder.path_of(name), "create", errno),
    }
}

/// Returns the attributes of a source entry; does not follow a symbolic link.
pub(crate) fn stat(folder: &Folder, name: &CStr) -> Result<Stat> {
    statat(&folder.source, name, AtFlags::SYMLINK_NOFOLLOW)
}

fn copy_link(mover: &Mover, worker: &mut Worker, folder: &Folder, name: &CStr) -> Result<()> {
    let content = readlinkat(&folder.source, name, Vec::new())?;
    create_or_replace(mover, worker, folder, name, |name| symlinkat(&content, &folder.target, name))
}

fn copy_node(
    mover: &Mover,
    worker: &mut Worker,
    folder: &Folder,
    name: &CStr,
    stat: &Stat,
) -> Result<()> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    let create =
        |name: &CStr| mknodat(&folder.target, name, kind, metadata::mode(stat), stat.st_rdev);
    create_or_replace(mover, worker, folder, name, create)
}

/// Creates an entry under its name. If the name exists, creates the entry under a temporary name and renames it.
fn create_or_replace(
    mover: &Mover,
    worker: &mut Worker,
    folder: &Folder,
    name: &CStr,
    create: impl Fn(&CStr) -> Result<()>,
) -> Result<()> {
    match create(name) {
        Err(Errno::EXIST) => {}
        created => return created,
    }
    let temporary = CString::new(mover.temporary(worker.slot)).map_err(|_| Errno::INVAL)?;
    worker.note_folder(mover, folder)?;
    let _ = unlinkat(&folder.target, &temporary, AtFlags::empty());
    create(&temporary)?;
    let placed = renameat(&folder.target, &temporary, &folder.target, name);
    if placed.is_err() {
        let _ = unlinkat(&folder.target, &temporary, AtFlags::empty());
    }
    placed
}

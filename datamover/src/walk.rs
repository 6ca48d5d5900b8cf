//! Reads directories, and puts their entries into the queue.

use std::{
    ffi::{CStr, CString},
    sync::Arc,
};

use movement::order::Share;
use rustix::{
    fs::{FileType, RawDir},
    io::Errno,
};

use crate::{
    file,
    folder::Folder,
    large,
    mover::{Mover, Worker},
    queue::Work,
    special,
};

/// Buffer size of one getdents64(2).
const BUFFER: usize = 32 << 10;
/// Number of files in one queue entry.
const BATCH: usize = 32;

/// Does work from the queue until none is left.
pub(crate) fn work(mover: &Arc<Mover>, worker: &mut Worker) {
    while let Some(work) = mover.queue.next() {
        perform(mover, worker, work);
        mover.queue.finish();
    }
}

fn perform(mover: &Arc<Mover>, worker: &mut Worker, work: Work) {
    if mover.is_over() && !matches!(work, Work::Blocks(_)) {
        return;
    }
    match work {
        Work::Read(folder) => read(mover, worker, &folder, mover.order.share),
        Work::File(file) => file::copy_opened(mover, worker, *file),
        Work::Folder(parent, name) => match parent.enter(mover, &name) {
            Ok(folder) => read(mover, worker, &Arc::new(folder), None),
            Err(errno) => mover.fail_write(&parent.path_of(&name), "copy the directory", errno),
        },
        Work::Files(folder, names) => {
            for name in names {
                if mover.is_over() {
                    return;
                }
                file::copy(mover, worker, &folder, &name);
            }
        }
        Work::Blocks(large) => large::copy_block(mover, worker, &large),
    }
}

/// Queues work, or does the work itself when the queue is full.
fn queue_or_perform(mover: &Arc<Mover>, worker: &mut Worker, work: Work) {
    if let Err(work) = mover.queue.push(work) {
        perform(mover, worker, work);
    }
}

/// Reads a folder. Queues its subdirectories and files, and copies symbolic links and special files at once. Leaves out
/// entries of other shares.
fn read(mover: &Arc<Mover>, worker: &mut Worker, folder: &Arc<Folder>, share: Option<Share>) {
    let mut buffer = Vec::with_capacity(BUFFER);
    let mut entries = RawDir::new(&folder.source, buffer.spare_capacity_mut());
    let mut files = Vec::new();
    while let Some(entry) = entries.next() {
        if mover.is_over() {
            return;
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(errno) => return mover.fail(&folder.source_path, "read the directory", errno),
        };
        let name = entry.file_name();
        let is_ours = share.is_none_or(|share| share.has(name.to_bytes()));
        if name == c"." || name == c".." || is_temporary(mover, name) || !is_ours {
            continue;
        }
        match kind(folder, name, entry.file_type()) {
            Ok(FileType::Directory) => {
                queue_or_perform(mover, worker, Work::Folder(folder.clone(), name.to_owned()));
            }
            Ok(FileType::RegularFile) => {
                files.push(name.to_owned());
                if files.len() == BATCH {
                    queue_files(mover, worker, folder, &mut files);
                }
            }
            Ok(_) => match special::stat(folder, name) {
                Ok(stat) => special::copy(mover, worker, folder, name, &stat),
                Err(errno) => mover.fail(&folder.path_of(name), "stat", errno),
            },
            Err(errno) => mover.fail(&folder.path_of(name), "stat", errno),
        }
    }
    queue_files(mover, worker, folder, &mut files);
}

fn queue_files(
    mover: &Arc<Mover>,
    worker: &mut Worker,
    folder: &Arc<Folder>,
    files: &mut Vec<CString>,
) {
    let files = std::mem::take(files);
    if files.is_empty() {
        return;
    }
    let work = Work::Files(folder.clone(), files);
    // Threads that create files in one directory wait for each other, so this thread copies the files itself as long as
    // the other threads have work elsewhere.
    if mover.queue.has(mover.order.threads.into()) {
        perform(mover, worker, work);
    } else {
        queue_or_perform(mover, worker, work);
    }
}

/// Returns an entry's type. Calls stat(2) on file systems that do not return the type with the directory's entries.
fn kind(folder: &Folder, name: &CStr, kind: FileType) -> Result<FileType, Errno> {
    match kind {
        FileType::Unknown => {
            special::stat(folder, name).map(|stat| FileType::from_raw_mode(stat.st_mode))
        }
        known => Ok(known),
    }
}

/// Whether the entry is a temporary file of this movement. The walk finds such files if the destination lies within the
/// source.
fn is_temporary(mover: &Mover, name: &CStr) -> bool {
    name.to_bytes().starts_with(mover.order.prefix.as_bytes())
}

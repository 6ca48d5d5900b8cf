//! Files larger than a block: several threads copy their blocks, and the journal records the copied blocks.

use std::{
    collections::BTreeSet,
    ffi::CStr,
    fs::File,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{AcqRel, Relaxed},
        },
    },
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, fstat, ftruncate, openat, unlinkat},
    io::{Errno, Result},
};

use crate::{
    data::{Fault, Pair},
    file::{self, Opened},
    folder::Folder,
    journal::LargeEntry,
    mover::{Mover, Worker},
    queue::Work,
    resume::{Begun, modified},
};

#[derive(Debug)]
pub(crate) struct Large {
    file: Opened,
    copy: File,
    /// Number in the temporary name, and in the journal.
    number: u64,
    /// Blocks that an earlier run copied.
    done: BTreeSet<u64>,
    blocks: u64,
    next: AtomicU64,
    left: AtomicU64,
    has_failed: AtomicBool,
}

/// Opens the temporary file, copies the first block, and offers the remaining blocks to other threads.
pub(crate) fn begin(mover: &Arc<Mover>, worker: &mut Worker, file: Opened) {
    match open(mover, &file) {
        Ok((copy, number, done)) => {
            let blocks = file.stat.st_size.cast_unsigned().div_ceil(mover.order.block);
            let (next, left) = (AtomicU64::new(0), AtomicU64::new(blocks));
            let has_failed = AtomicBool::new(false);
            let large = Large { file, copy, number, done, blocks, next, left, has_failed };
            copy_block(mover, worker, &Arc::new(large));
        }
        Err(errno) => {
            mover.fail_write(&file.from, "create", errno);
            file::link_names(mover, worker, &file, false);
        }
    }
}

/// Returns the temporary file, its number, and the blocks that are copied already.
fn open(mover: &Mover, file: &Opened) -> Result<(File, u64, BTreeSet<u64>)> {
    let path = file.folder.target_of(&file.to);
    let begun = mover.resume.as_ref().and_then(|resume| resume.begun(&path, &file.stat));
    if let Some((copy, begun)) = begun.and_then(|begun| Some((reopen(mover, file, begun)?, begun)))
    {
        return Ok((copy, begun.number, begun.blocks.clone()));
    }
    remove_stale(mover, &file.folder, &file.to);
    let number = mover.next_large.fetch_add(1, Relaxed);
    let size = file.stat.st_size.cast_unsigned();
    let entry = LargeEntry { number, size, modified: modified(&file.stat), path: &path };
    mover.journal.note_large(&entry).map_err(|error| crate::data::errno_of(&error))?;
    let copy = file::create(mover, &file.folder, &mover.temporary_large(number), &file.stat)?;
    ftruncate(&copy, size)?;
    Ok((copy, number, BTreeSet::new()))
}

/// Removes the temporary file that an earlier run created for a name and that this run does not use. Removing it later
/// would change the times that the folder gets from its source.
pub(crate) fn remove_stale(mover: &Mover, folder: &Folder, name: &CStr) {
    let path = || folder.target_of(name);
    if let Some(number) = mover.resume.as_ref().and_then(|resume| resume.number_of(&path())) {
        let _ = unlinkat(&folder.target, mover.temporary_large(number), AtFlags::empty());
    }
}

/// Opens the temporary file that an earlier run left; `None` when it is missing, or has another size or a further hard
/// link.
fn reopen(mover: &Mover, file: &Opened, begun: &Begun) -> Option<File> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = mover.temporary_large(begun.number);
    let copy: File = openat(&file.folder.target, name, flags, Mode::empty()).ok()?.into();
    let stat = fstat(&copy).ok()?;
    (stat.st_size == file.stat.st_size && stat.st_nlink == 1).then_some(copy)
}

/// Copies the next block. Before that, puts the following blocks into the queue for other threads; if the queue is
/// full, copies those blocks too.
pub(crate) fn copy_block(mover: &Arc<Mover>, worker: &mut Worker, large: &Arc<Large>) {
    loop {
        let block = large.next.fetch_add(1, Relaxed);
        if block >= large.blocks {
            return;
        }
        let has_more = block + 1 < large.blocks;
        let is_offered = has_more && mover.queue.push(Work::Blocks(large.clone())).is_ok();
        large.copy(mover, worker, block);
        if large.left.fetch_sub(1, AcqRel) == 1 {
            large.finish(mover, worker);
        }
        if !has_more || is_offered {
            return;
        }
    }
}

impl Large {
    fn copy(&self, mover: &Mover, worker: &mut Worker, block: u64) {
        let size = self.file.stat.st_size.cast_unsigned();
        let from = block * mover.order.block;
        let to = (from + mover.order.block).min(size);
        if self.has_failed.load(Relaxed) {
            return;
        }
        let pair = Pair { source: &self.file.source, copy: &self.copy, stat: &self.file.stat };
        if self.done.contains(&block) {
            // A failure to count does not matter: the block is copied already.
            let bytes = pair.bytes_between(from, to).unwrap_or(0);
            mover.counters.bytes.fetch_add(bytes, Relaxed);
            mover.counters.kept.fetch_add(bytes, Relaxed);
            return;
        }
        let copied = pair.copy(mover, &mut worker.buffer, from, to).and_then(|()| {
            let noted = mover.journal.note_block(self.number, block);
            noted.map_err(|error| Fault::Write(crate::data::errno_of(&error)))
        });
        if let Err(fault) = copied
            && !self.has_failed.swap(true, Relaxed)
        {
            mover.fail_data(&self.file.from, fault);
        }
    }

    /// Renames a complete copy to its final name, and removes an incomplete one.
    fn finish(&self, mover: &Mover, worker: &mut Worker) {
        let temporary = mover.temporary_large(self.number);
        let mut is_copied = false;
        if !self.has_failed.load(Relaxed) && !mover.is_over() {
            let placed = file::put_in_place(mover, &self.file, &self.copy, &temporary);
            is_copied = placed.is_ok();
            if let Err(errno) = placed {
                mover.fail_write(&self.file.from, "write", errno);
            }
        }
        if !is_copied {
            let removed = unlinkat(&self.file.folder.target, temporary, AtFlags::empty());
            debug_assert!(removed.is_ok() || removed == Err(Errno::NOENT), "{removed:?}");
        }
        file::link_names(mover, worker, &self.file, is_copied);
    }
}

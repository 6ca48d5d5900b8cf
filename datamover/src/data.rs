//! Copies the data of a file. Holes stay holes, and the kernel shares the blocks (FICLONE, ioctl_ficlone(2)) or copies
//! (copy_file_range(2)) where the file systems allow it.

use std::{fs::File, os::unix::fs::FileExt, sync::atomic::Ordering::Relaxed};

use rustix::{
    fs::{SeekFrom, Stat, copy_file_range, ioctl_ficlone, seek},
    io::Errno,
};

use crate::mover::Mover;

/// Maximum bytes that one call copies. A cancelled movement ends after the current call.
const CHUNK: u64 = 4 << 20;
/// Bytes of a thread's buffer.
const BUFFER: usize = 1 << 20;
/// Maximum size of files that are copied by read(2) and write(2): for them, copy_file_range(2) costs more.
const TINY: u64 = 64 << 10;
/// Bytes of the smallest hole that is made where the source's file system does not tell its holes, such as NFS 3 or 9p.
const PAGE: usize = 4 << 10;

/// Why data was not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Read(Errno),
    Write(Errno),
    /// The movement has been cancelled or stopped.
    Over,
}

/// Bytes that one call copied.
#[derive(Clone, Copy, Debug)]
struct Copied {
    /// Holes included.
    length: u64,
    /// Holes not included.
    data: u64,
}

/// A source file and its copy, whose size has been set if the source has holes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<'a> {
    pub(crate) source: &'a File,
    pub(crate) copy: &'a File,
    /// Attributes of the source when it was opened.
    pub(crate) stat: &'a Stat,
}

impl Pair<'_> {
    /// Makes the copy share all blocks of the source. Returns `false`, and changes nothing, where the file systems
    /// cannot share blocks.
    pub(crate) fn share_blocks(&self, mover: &Mover) -> Result<bool, Fault> {
        let bytes = bytes_of_data(self.stat);
        if bytes == 0 || !mover.shares_blocks.load(Relaxed) {
            return Ok(false);
        }
        mover.throttle.take(bytes, || mover.is_over());
        if mover.is_over() {
            return Err(Fault::Over);
        }
        match ioctl_ficlone(self.copy, self.source) {
            Ok(()) => {
                mover.counters.bytes.fetch_add(bytes, Relaxed);
                Ok(true)
            }
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => Err(Fault::Write(errno)),
            Err(_) => {
                mover.shares_blocks.store(false, Relaxed);
                Ok(false)
            }
        }
    }

    /// Copies the data between two offsets. Stops at the end of a source that became shorter.
    pub(crate) fn copy(
        &self,
        mover: &Mover,
        buffer: &mut Vec<u8>,
        from: u64,
        to: u64,
    ) -> Result<(), Fault> {
        if !has_holes(self.stat) {
            return self.copy_data(mover, buffer, from, to);
        }
        let mut at = from;
        while at < to {
            let Some((begin, end)) = self.next_data(at, to)? else { return Ok(()) };
            self.copy_data(mover, buffer, begin, end)?;
            at = end;
        }
        Ok(())
    }

    /// Counts the bytes of data between two offsets, holes not counted.
    pub(crate) fn bytes_between(&self, from: u64, to: u64) -> Result<u64, Fault> {
        if !has_holes(self.stat) {
            return Ok(to - from);
        }
        let (mut at, mut bytes) = (from, 0);
        while at < to {
            let Some((begin, end)) = self.next_data(at, to)? else { break };
            bytes += end - begin;
            at = end;
        }
        Ok(bytes)
    }

    /// Returns the next range of data (lseek(2), `SEEK_DATA`); `None` when only a hole follows.
    fn next_data(&self, at: u64, to: u64) -> Result<Option<(u64, u64)>, Fault> {
        let begin = match seek(self.source, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => return Ok(None),
            begin => begin.map_err(Fault::Read)?,
        };
        if begin >= to {
            return Ok(None);
        }
        let end = seek(self.source, SeekFrom::Hole(begin)).map_err(Fault::Read)?;
        Ok(Some((begin, end.min(to))))
    }

    fn copy_data(
        &self,
        mover: &Mover,
        buffer: &mut Vec<u8>,
        from: u64,
        to: u64,
    ) -> Result<(), Fault> {
        let mut at = from;
        while at < to {
            if mover.is_over() {
                return Err(Fault::Over);
            }
            let length = (to - at).min(CHUNK);
            mover.throttle.take(length, || mover.is_over());
            let copied = self.copy_chunk(mover, buffer, at, length)?;
            if copied.length == 0 {
                return Ok(());
            }
            mover.counters.bytes.fetch_add(copied.data, Relaxed);
            at += copied.length;
        }
        Ok(())
    }

    fn copy_chunk(
        &self,
        mover: &Mover,
        buffer: &mut Vec<u8>,
        at: u64,
        length: u64,
    ) -> Result<Copied, Fault> {
        let is_tiny = self.stat.st_size.cast_unsigned() <= TINY;
        if !is_tiny && mover.copies_ranges.load(Relaxed) {
            let (mut from, mut to) = (at, at);
            let wanted = usize::try_from(length).unwrap_or(usize::MAX);
            match copy_file_range(self.source, Some(&mut from), self.copy, Some(&mut to), wanted) {
                Ok(copied) if copied > 0 => {
                    return Ok(Copied { length: copied as u64, data: copied as u64 });
                }
                // 0 bytes: the end of the file, or a file system such as procfs that copies nothing though there is
                // data.
                Ok(_) => {}
                Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                    return Err(Fault::Write(errno));
                }
                Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {
                    mover.copies_ranges.store(false, Relaxed);
                }
                // The call does not say whether source or destination failed; read(2) and write(2) do.
                Err(_) => {}
            }
        }
        self.read_and_write(buffer, at, length)
    }

    fn read_and_write(&self, buffer: &mut Vec<u8>, at: u64, length: u64) -> Result<Copied, Fault> {
        let length = usize::try_from(length).unwrap_or(BUFFER).min(BUFFER);
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        let read = loop {
            match self.source.read_at(&mut buffer[..length], at) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read.map_err(|error| Fault::Read(errno_of(&error)))?,
            }
        };
        let data = self.write(&buffer[..read], at)?;
        Ok(Copied { length: read as u64, data })
    }

    /// Writes bytes of the source to its copy, and leaves out the zeros of a source with holes. Returns how many bytes
    /// were written.
    fn write(&self, bytes: &[u8], at: u64) -> Result<u64, Fault> {
        let runs = if has_holes(self.stat) { runs_of_data(bytes) } else { vec![(0, bytes.len())] };
        let mut written = 0;
        for (begin, end) in runs {
            let result = self.copy.write_all_at(&bytes[begin..end], at + begin as u64);
            result.map_err(|error| Fault::Write(errno_of(&error)))?;
            written += (end - begin) as u64;
        }
        Ok(written)
    }
}

/// Returns where the bytes are not zero: begin and end of each run of pages with data.
fn runs_of_data(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (page, begin) in bytes.chunks(PAGE).zip((0..).step_by(PAGE)) {
        let end = begin + page.len();
        match runs.last_mut() {
            _ if page.iter().all(|byte| *byte == 0) => {}
            Some(run) if run.1 == begin => run.1 = end,
            _ => runs.push((begin, end)),
        }
    }
    runs
}

/// Whether fewer blocks are allocated than the size needs.
pub(crate) fn has_holes(stat: &Stat) -> bool {
    allocated(stat) < stat.st_size.cast_unsigned()
}

/// Bytes of data in a file, holes not counted.
pub(crate) fn bytes_of_data(stat: &Stat) -> u64 {
    allocated(stat).min(stat.st_size.cast_unsigned())
}

fn allocated(stat: &Stat) -> u64 {
    stat.st_blocks.cast_unsigned() * 512
}

pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_zeros_are_no_data() {
        let bytes = |pages: &[u8]| -> Vec<u8> {
            pages.iter().flat_map(|byte| std::iter::repeat_n(*byte, PAGE)).collect()
        };
        let mut mixed = bytes(&[0, 1, 1, 0, 0, 1]);
        mixed.extend([0, 0, 7]);
        let cases: [(_, &[(usize, usize)]); 5] = [
            (Vec::new(), &[]),
            (bytes(&[0, 0]), &[]),
            (vec![0; 100], &[]),
            (bytes(&[1, 2]), &[(0, 2 * PAGE)]),
            (mixed, &[(PAGE, 3 * PAGE), (5 * PAGE, 6 * PAGE + 3)]),
        ];
        for (bytes, runs) in cases {
            assert_eq!(runs_of_data(&bytes), runs);
        }
    }
}

//! Copies the data of a file. Holes stay holes, and the kernel copies (copy_file_range(2)) where the file systems allow
//! it.

use std::{fs::File, os::unix::fs::FileExt, sync::atomic::Ordering::Relaxed};

use rustix::{
    fs::{SeekFrom, Stat, copy_file_range, seek},
    io::Errno,
};

use crate::mover::Mover;

/// Maximum bytes that one call copies. A cancelled movement ends after the current call.
const CHUNK: u64 = 4 << 20;
/// Bytes of a thread's buffer.
const BUFFER: usize = 1 << 20;
/// Maximum size of files that are copied by read(2) and write(2): for them, copy_file_range(2) costs more.
const TINY: u64 = 64 << 10;

/// Why data was not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Read(Errno),
    Write(Errno),
    /// The movement has been cancelled or stopped.
    Over,
}

/// A source file and its copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<'a> {
    pub(crate) source: &'a File,
    pub(crate) copy: &'a File,
    /// Attributes of the source when it was opened.
    pub(crate) stat: &'a Stat,
}

impl Pair<'_> {
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
            if copied == 0 {
                return Ok(());
            }
            mover.counters.bytes.fetch_add(copied, Relaxed);
            at += copied;
        }
        Ok(())
    }

    fn copy_chunk(
        &self,
        mover: &Mover,
        buffer: &mut Vec<u8>,
        at: u64,
        length: u64,
    ) -> Result<u64, Fault> {
        let is_tiny = self.stat.st_size.cast_unsigned() <= TINY;
        if !is_tiny && mover.copies_ranges.load(Relaxed) {
            let (mut from, mut to) = (at, at);
            let wanted = usize::try_from(length).unwrap_or(usize::MAX);
            match copy_file_range(self.source, Some(&mut from), self.copy, Some(&mut to), wanted) {
                Ok(copied) if copied > 0 => return Ok(copied as u64),
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

    fn read_and_write(&self, buffer: &mut Vec<u8>, at: u64, length: u64) -> Result<u64, Fault> {
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
        let written = self.copy.write_all_at(&buffer[..read], at);
        written.map_err(|error| Fault::Write(errno_of(&error)))?;
        Ok(read as u64)
    }
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

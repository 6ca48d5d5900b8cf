//! Limits how many bytes of an archive are read. The reader keeps at most 1 MiB of a header in memory, whatever sizes
//! the header states.

use std::{
    cell::Cell,
    io::{self, Read},
    rc::Rc,
};

use tokio::sync::watch;

/// Maximum bytes between the data of two entries. The archive has a header there, and before the header possibly long
/// names and attributes.
const HEADER: u64 = 1 << 20;

/// Why reading was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cutoff {
    /// The archive has more bytes than the profile allows.
    TooLarge,
    /// The fetch was stopped.
    Stopped,
}

/// The number of bytes that the reader may still read.
#[derive(Debug, Clone)]
pub(super) struct Allowance {
    left: Rc<Cell<u64>>,
    /// Bytes that are left for the current header; `None` while the reader reads data.
    header: Rc<Cell<Option<u64>>>,
    cutoff: Rc<Cell<Option<Cutoff>>>,
    stop: watch::Receiver<bool>,
}

impl Allowance {
    pub(super) fn new(limit: u64, stop: watch::Receiver<bool>) -> Self {
        let (left, header, cutoff) = (Rc::new(Cell::new(limit)), Rc::default(), Rc::default());
        Self { left, header, cutoff, stop }
    }

    /// Starts the limit for the bytes of a header.
    pub(super) fn start_header(&self) {
        self.header.set(Some(HEADER));
    }

    /// Ends the limit for the bytes of a header, because data follows.
    pub(super) fn start_data(&self) {
        self.header.set(None);
    }

    /// Returns the reason why reading was cut off; `None` if the archive itself ended or is broken.
    pub(super) fn cutoff(&self) -> Option<Cutoff> {
        self.cutoff.get()
    }

    fn take(&self, read: usize) -> io::Result<()> {
        let read = read as u64;
        let Some(left) = self.left.get().checked_sub(read) else {
            return self.refuse(Cutoff::TooLarge);
        };
        self.left.set(left);
        if let Some(header) = self.header.get() {
            let left = header.checked_sub(read);
            let left = left.ok_or_else(|| io::Error::other("a header has more than 1 MiB"))?;
            self.header.set(Some(left));
        }
        Ok(())
    }

    fn refuse<T>(&self, cutoff: Cutoff) -> io::Result<T> {
        self.cutoff.set(Some(cutoff));
        Err(io::Error::other("reading was cut off"))
    }
}

/// A reader that stops when its allowance is used up.
#[derive(Debug)]
pub(super) struct Bounded<R> {
    inner: R,
    allowance: Allowance,
}

impl<R> Bounded<R> {
    pub(super) fn new(inner: R, allowance: Allowance) -> Self {
        Self { inner, allowance }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if *self.allowance.stop.borrow() {
            return self.allowance.refuse(Cutoff::Stopped);
        }
        let read = self.inner.read(buffer)?;
        self.allowance.take(read)?;
        Ok(read)
    }
}

//! Limits how many bytes of an archive are read. A header cannot make its reader hold more than 1 MiB in memory,
//! whatever the archive says.

use std::{
    cell::Cell,
    io::{self, Read},
    rc::Rc,
};

use tokio::sync::watch;

/// Maximum bytes between one entry's end and the next one's data: headers,
/// with the long names and attributes before them.
const HEADER: u64 = 1 << 20;

/// Why reading was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cutoff {
    /// The archive has more bytes than it may have.
    TooLarge,
    /// The fetch was stopped.
    Stopped,
}

/// How many bytes may still be read.
#[derive(Debug, Clone)]
pub(super) struct Allowance {
    left: Rc<Cell<u64>>,
    /// Bytes left for the current header; none while data is read.
    header: Rc<Cell<Option<u64>>>,
    cutoff: Rc<Cell<Option<Cutoff>>>,
    stop: watch::Receiver<bool>,
}

impl Allowance {
    pub(super) fn new(limit: u64, stop: watch::Receiver<bool>) -> Self {
        let (left, header, cutoff) = (Rc::new(Cell::new(limit)), Rc::default(), Rc::default());
        Self { left, header, cutoff, stop }
    }

    /// Starts the limit of a header.
    pub(super) fn start_header(&self) {
        self.header.set(Some(HEADER));
    }

    /// Ends the limit of a header: data follows.
    pub(super) fn start_data(&self) {
        self.header.set(None);
    }

    /// Returns why reading was cut off; `None` if the archive itself ended or is broken.
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
        Err(io::Error::other("no more is read"))
    }
}

/// A reader that stops at its allowance.
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

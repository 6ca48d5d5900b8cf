//! How much is read of an archive. Whoever reads a header cannot be made to hold more of it than a little in memory, whatever the
//! archive says of itself.

use std::{
    cell::Cell,
    io::{self, Read},
    rc::Rc,
};

use tokio::sync::watch;

/// Bytes that may be read from one entry's end to the next one's data: headers, and long names and attributes before them.
const HEADER: u64 = 1 << 20;

/// Why no more is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The archive has more bytes than it may have.
    TooLarge,
    /// Nobody wants it any more.
    Stopped,
}

/// How much may be read still.
#[derive(Debug, Clone)]
pub(super) struct Allowance {
    left: Rc<Cell<u64>>,
    /// Of a header; none while data is read.
    header: Rc<Cell<Option<u64>>>,
    why: Rc<Cell<Option<Why>>>,
    stop: watch::Receiver<bool>,
}

impl Allowance {
    pub(super) fn new(limit: u64, stop: watch::Receiver<bool>) -> Self {
        let (left, header, why) = (Rc::new(Cell::new(limit)), Rc::default(), Rc::default());
        Self { left, header, why, stop }
    }

    /// A header is read from here on.
    pub(super) fn header(&self) {
        self.header.set(Some(HEADER));
    }

    /// Data is read from here on.
    pub(super) fn data(&self) {
        self.header.set(None);
    }

    /// Why no more was read, if not because of the archive itself.
    pub(super) fn why(&self) -> Option<Why> {
        self.why.get()
    }

    fn take(&self, read: usize) -> io::Result<()> {
        let read = read as u64;
        let Some(left) = self.left.get().checked_sub(read) else {
            return self.refuse(Why::TooLarge);
        };
        self.left.set(left);
        if let Some(header) = self.header.get() {
            let left = header.checked_sub(read);
            let left = left.ok_or_else(|| io::Error::other("a header has more than 1 MiB"))?;
            self.header.set(Some(left));
        }
        Ok(())
    }

    fn refuse<T>(&self, why: Why) -> io::Result<T> {
        self.why.set(Some(why));
        Err(io::Error::other("no more is read"))
    }
}

/// A reader that ends where its allowance does.
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
            return self.allowance.refuse(Why::Stopped);
        }
        let read = self.inner.read(buffer)?;
        self.allowance.take(read)?;
        Ok(read)
    }
}

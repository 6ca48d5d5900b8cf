//! Reports changes in directories by inotify(7), without polling.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InitFlags, Inotify},
};
use tokio::io::unix::AsyncFd;

#[derive(Debug)]
pub(super) struct Watch {
    ready: AsyncFd<OwnedFd>,
    inotify: Inotify,
    /// Whether a change was read from the kernel but has not been reported yet.
    pending: AtomicBool,
}

impl Watch {
    /// Starts to watch these directories.
    ///
    /// # Errors
    /// A directory cannot be watched.
    pub(super) fn new(directories: &[&Path]) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let changes = AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        for directory in directories {
            inotify.add_watch(*directory, changes)?;
        }
        #[expect(
            deprecated,
            reason = "its successor is unsafe for types that may change their descriptor, which an OwnedFd does not"
        )]
        let ready = AsyncFd::new(inotify.as_fd().try_clone_to_owned()?)?;
        Ok(Self { ready, inotify, pending: AtomicBool::new(false) })
    }

    /// Waits for a change of a file whose name does not begin with a dot. If the kernel lost events by an overflow,
    /// this counts as a change.
    ///
    /// # Errors
    /// The path of a watched directory leads to another directory now.
    pub(super) async fn changed(&self) -> io::Result<()> {
        loop {
            if self.pending.swap(false, Ordering::Relaxed) {
                return Ok(());
            }
            let mut ready = self.ready.readable().await?;
            match self.drain() {
                Ok(()) | Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(errno) => return Err(explain(errno)),
            }
        }
    }

    /// Checks, without waiting, that the paths still lead to the watched directories.
    ///
    /// # Errors
    /// The path of a watched directory leads to another directory now.
    pub(super) fn check(&self) -> io::Result<()> {
        loop {
            match self.drain() {
                Ok(()) | Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(()),
                Err(errno) => return Err(explain(errno)),
            }
        }
    }

    /// Reads all pending events; fails with `ENOENT` if a watch ended.
    fn drain(&self) -> Result<(), Errno> {
        let ends = AddWatchFlags::IN_IGNORED
            | AddWatchFlags::IN_UNMOUNT
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF;
        for event in self.inotify.read_events()? {
            if event.mask.intersects(ends) {
                return Err(Errno::ENOENT);
            }
            let hidden = event.name.is_some_and(|name| name.as_bytes().starts_with(b"."));
            if !hidden {
                self.pending.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

fn explain(errno: Errno) -> io::Error {
    match errno {
        Errno::ENOENT => {
            io::Error::new(io::ErrorKind::NotFound, "it was deleted, renamed or unmounted")
        }
        _ => errno.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn drained(watch: &Watch) -> Result<bool, Errno> {
        watch.drain()?;
        Ok(watch.pending.swap(false, Ordering::Relaxed))
    }

    fn watched(directory: &Path) -> (std::path::PathBuf, Watch) {
        let watched = directory.join("a");
        fs::create_dir(&watched).unwrap();
        let watch = Watch::new(&[&watched]).unwrap();
        (watched, watch)
    }

    #[tokio::test]
    async fn only_complete_and_removed_files_are_changes() {
        let directory = tempfile::tempdir().unwrap();
        let (watched, watch) = watched(directory.path());
        assert_eq!(drained(&watch), Err(Errno::EAGAIN));
        fs::write(watched.join(".half"), "x").unwrap();
        assert_eq!(drained(&watch), Ok(false), "the file is not complete");
        fs::rename(watched.join(".half"), watched.join("whole")).unwrap();
        assert_eq!(drained(&watch), Ok(true));
        fs::remove_file(watched.join("whole")).unwrap();
        assert_eq!(drained(&watch), Ok(true));
        let slow = fs::File::create(watched.join("slow")).unwrap();
        assert_eq!(drained(&watch), Err(Errno::EAGAIN), "the writer has not closed the file");
        drop(slow);
        assert_eq!(drained(&watch), Ok(true));
    }

    #[tokio::test]
    async fn a_change_ends_the_wait_and_a_renamed_directory_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let (watched, watch) = watched(directory.path());
        let writing = watched.clone();
        let (changed, ()) = tokio::join!(watch.changed(), async move {
            tokio::task::yield_now().await;
            fs::write(writing.join("whole"), "x").unwrap();
        });
        changed.unwrap();
        fs::rename(&watched, directory.path().join("b")).unwrap();
        assert_eq!(watch.changed().await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}

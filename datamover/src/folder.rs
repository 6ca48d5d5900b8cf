//! A directory that is being copied. Source and target stay open, so that a symbolic link that a user puts in the place
//! of one of them is never followed.

use std::{
    ffi::CStr,
    fs::File,
    os::unix::fs::MetadataExt,
    sync::{Arc, Weak, atomic::Ordering::Relaxed},
};

use rustix::{
    fs::{Mode, OFlags, Stat, fchmod, fstat, mkdirat, openat},
    io::{Errno, Result},
};

use crate::{metadata, mover::Mover};

const OPEN: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Maximum levels of a tree: each level needs two open files.
const LEVELS: u32 = 1000;

#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) source: File,
    pub(crate) target: File,
    /// Path in the source, for messages.
    pub(crate) source_path: Vec<u8>,
    /// Path relative to the destination's root.
    pub(crate) target_path: Vec<u8>,
    level: u32,
    /// Source metadata to set on the target once everything in it is copied; `None` for a directory that is not itself
    /// a copy.
    finish: Option<Stat>,
    mover: Weak<Mover>,
    /// Keeps the parent open and its metadata unset until this folder is dropped.
    parent: Option<Arc<Folder>>,
}

impl Folder {
    /// Returns the folder into which a movement copies.
    pub(crate) fn top(mover: &Arc<Mover>, source: File, target: File, target_path: &str) -> Self {
        Self {
            source,
            target,
            source_path: mover.order.source.path.trim_end_matches('/').as_bytes().to_vec(),
            target_path: target_path.as_bytes().to_vec(),
            level: 0,
            finish: None,
            mover: Arc::downgrade(mover),
            parent: None,
        }
    }

    /// Opens a subdirectory of the source, and creates its copy.
    pub(crate) fn enter(self: &Arc<Self>, mover: &Arc<Mover>, name: &CStr) -> Result<Self> {
        let source = openat(&self.source, name, OPEN, Mode::empty())?;
        self.create(mover, source.into(), name)
    }

    /// Creates the copy of an opened directory under this name.
    pub(crate) fn create(
        self: &Arc<Self>,
        mover: &Arc<Mover>,
        source: File,
        name: &CStr,
    ) -> Result<Self> {
        if self.level == LEVELS {
            return Err(Errno::NAMETOOLONG);
        }
        let stat = fstat(&source)?;
        let is_new = match mkdirat(&self.target, name, Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno),
        };
        let target: File = openat(&self.target, name, OPEN, Mode::empty())?.into();
        if !is_new && mover.resume.is_some() {
            // An earlier run may have set the final mode, which may lack write permission.
            let mode = target.metadata().map_or(0, |metadata| metadata.mode()) & 0o7777;
            let _ = fchmod(&target, Mode::from_raw_mode(mode | 0o700));
        }
        let joined = |path: &[u8]| [path, name.to_bytes()].join(&b'/');
        Ok(Self {
            source,
            target,
            source_path: joined(&self.source_path),
            target_path: if self.target_path.is_empty() {
                name.to_bytes().to_vec()
            } else {
                joined(&self.target_path)
            },
            level: self.level + 1,
            finish: Some(stat),
            mover: Arc::downgrade(mover),
            parent: Some(self.clone()),
        })
    }

    /// Keeps the user's write permission on the target: other rabbits still create their shares in it.
    pub(crate) fn stay_writable(&mut self) {
        if let Some(stat) = &mut self.finish {
            stat.st_mode |= 0o700;
        }
    }

    /// Path of an entry in the source, for messages.
    pub(crate) fn path_of(&self, name: &CStr) -> Vec<u8> {
        [&*self.source_path, name.to_bytes()].join(&b'/')
    }

    /// Path of an entry relative to the destination's root.
    pub(crate) fn target_of(&self, name: &CStr) -> Vec<u8> {
        if self.target_path.is_empty() {
            return name.to_bytes().to_vec();
        }
        [&*self.target_path, name.to_bytes()].join(&b'/')
    }
}

/// Sets the metadata of the target when the last task that copied something in this folder has ended.
impl Drop for Folder {
    fn drop(&mut self) {
        let (Some(stat), Some(mover)) = (&self.finish, self.mover.upgrade()) else { return };
        if mover.is_over() {
            return;
        }
        match metadata::finish(&mover, &self.source, &self.target, stat) {
            Ok(()) => {
                mover.counters.directories.fetch_add(1, Relaxed);
            }
            Err(errno) => mover.fail_write(&self.source_path, "set mode and times", errno),
        }
        self.parent = None;
    }
}

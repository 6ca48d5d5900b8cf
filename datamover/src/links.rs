//! Hard links: files of the source with several names get one copy with as many.

use std::{
    collections::HashMap,
    ffi::CString,
    sync::{Arc, Mutex, PoisonError},
};

use rustix::fs::Stat;

use crate::folder::Folder;

/// Most files that are remembered at a time. Further ones are copied once for each name.
const MOST: usize = 200_000;

#[derive(Debug, Default)]
pub(crate) struct Links(Mutex<HashMap<Key, Link>>);

/// Device and inode.
pub(crate) type Key = (u64, u64);

#[derive(Debug)]
struct Link {
    /// Names that were not met yet.
    left: u64,
    copy: Copy,
}

#[derive(Debug)]
enum Copy {
    /// A thread copies it; these names wait for that.
    Begun(Vec<Name>),
    /// Path relative to the destination's root.
    Made(Arc<[u8]>),
}

/// A name that a file is to have in a folder.
pub(crate) type Name = (Arc<Folder>, CString);

/// What to do with a name of a file.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Copy the file, and say so by [`Links::copied`] or [`Links::failed`].
    Copy,
    /// Copy the file. No other name of it is linked to it.
    CopyAlone,
    /// Link the name to this path, relative to the destination's root.
    Link(Arc<[u8]>),
    /// Nothing: another thread copies the file, and links the name.
    Waits,
}

pub(crate) fn key(stat: &Stat) -> Key {
    (stat.st_dev, stat.st_ino)
}

impl Links {
    /// Takes a name of a file with several names.
    pub(crate) fn meet(&self, stat: &Stat, name: Name) -> Turn {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = links.len() >= MOST;
        let Some(link) = links.get_mut(&key(stat)) else {
            if is_full {
                return Turn::CopyAlone;
            }
            let left = stat.st_nlink.saturating_sub(1);
            links.insert(key(stat), Link { left, copy: Copy::Begun(Vec::new()) });
            return Turn::Copy;
        };
        link.left = link.left.saturating_sub(1);
        let turn = match &mut link.copy {
            Copy::Begun(waiting) => {
                waiting.push(name);
                return Turn::Waits;
            }
            Copy::Made(path) => Turn::Link(path.clone()),
        };
        if link.left == 0 {
            links.remove(&key(stat));
        }
        turn
    }

    /// Records the copy of a file, and returns the names that waited for it.
    pub(crate) fn copied(&self, key: Key, path: Vec<u8>) -> Vec<Name> {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(link) = links.get_mut(&key) else { return Vec::new() };
        let begun = std::mem::replace(&mut link.copy, Copy::Made(path.into()));
        if link.left == 0 {
            links.remove(&key);
        }
        names(begun)
    }

    /// Forgets a file that could not be copied, and returns the names that waited for it.
    pub(crate) fn failed(&self, key: Key) -> Vec<Name> {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.remove(&key).map_or(Vec::new(), |link| names(link.copy))
    }
}

fn names(copy: Copy) -> Vec<Name> {
    match copy {
        Copy::Begun(waiting) => waiting,
        Copy::Made(_) => Vec::new(),
    }
}

//! Hard links: a source file with several names gets one copy with as many names.

use std::{
    collections::HashMap,
    ffi::CString,
    sync::{Arc, Mutex, PoisonError},
};

use rustix::fs::Stat;

use crate::folder::Folder;

/// Maximum number of files in the table. Of files beyond this number, each name gets its own copy.
const MAX_FILES: usize = 200_000;

#[derive(Debug, Default)]
pub(crate) struct Links(Mutex<HashMap<Key, Link>>);

/// Device and inode.
pub(crate) type Key = (u64, u64);

#[derive(Debug)]
struct Link {
    /// Number of names that the walk through the source tree has not reached yet.
    unreached: u64,
    copy: Copy,
}

#[derive(Debug)]
enum Copy {
    /// A thread copies the file; these names wait for the copy.
    Begun(Vec<Name>),
    /// The copy is complete; its path, relative to the destination's root.
    Made(Arc<[u8]>),
}

/// A name to link in a folder.
pub(crate) type Name = (Arc<Folder>, CString);

/// The action for one name of a file.
#[derive(Debug)]
pub(crate) enum Action {
    /// Copy the file, and then call [`Links::copied`] or [`Links::failed`].
    Copy,
    /// Copy the file under this name only: the table of files is full.
    CopyAlone,
    /// Link the name to this path, relative to the destination's root.
    Link(Arc<[u8]>),
    /// Nothing: the thread that copies the file will link this name.
    Nothing,
}

pub(crate) fn key(stat: &Stat) -> Key {
    (stat.st_dev, stat.st_ino)
}

impl Links {
    /// Records that the walk reached a name of a file with several names, and returns the action for it.
    pub(crate) fn add_name(&self, stat: &Stat, name: Name) -> Action {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = links.len() >= MAX_FILES;
        let Some(link) = links.get_mut(&key(stat)) else {
            if is_full {
                return Action::CopyAlone;
            }
            let unreached = stat.st_nlink.saturating_sub(1);
            links.insert(key(stat), Link { unreached, copy: Copy::Begun(Vec::new()) });
            return Action::Copy;
        };
        link.unreached = link.unreached.saturating_sub(1);
        let action = match &mut link.copy {
            Copy::Begun(waiting) => {
                waiting.push(name);
                return Action::Nothing;
            }
            Copy::Made(path) => Action::Link(path.clone()),
        };
        if link.unreached == 0 {
            links.remove(&key(stat));
        }
        action
    }

    /// Records the copy of a file, and returns the names that waited for it.
    pub(crate) fn copied(&self, key: Key, path: Vec<u8>) -> Vec<Name> {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(link) = links.get_mut(&key) else { return Vec::new() };
        let begun = std::mem::replace(&mut link.copy, Copy::Made(path.into()));
        if link.unreached == 0 {
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

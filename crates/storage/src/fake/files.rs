//! Simulates directories, files and symbolic links.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{desired::MountPoint, observed::PathState};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    Directory,
    /// An empty file that a step made.
    File,
    Link(String),
    /// A file with contents that the test planted.
    PlantedFile,
    PlantedLink(String),
}

#[derive(Debug, Default)]
pub(super) struct Files(BTreeMap<PathBuf, Entry>);

impl Files {
    pub(super) fn get(&self, path: &Path) -> Option<&Entry> {
        self.0.get(path)
    }

    pub(super) fn put(&mut self, path: &Path, entry: Entry) {
        self.0.insert(path.to_owned(), entry);
    }

    pub(super) fn remove(&mut self, path: &Path) {
        self.0.remove(path);
    }

    /// Makes the directory `path` and its parents.
    pub(super) fn make_directories(&mut self, path: &Path) {
        for above in path.ancestors() {
            self.0.entry(above.to_owned()).or_insert(Entry::Directory);
        }
    }

    pub(super) fn plant_link(&mut self, path: &Path, text: &str) {
        path.parent().into_iter().for_each(|parent| self.make_directories(parent));
        self.put(path, Entry::PlantedLink(text.to_owned()));
    }

    pub(super) fn plant_file(&mut self, path: &Path) {
        path.parent().into_iter().for_each(|parent| self.make_directories(parent));
        self.put(path, Entry::PlantedFile);
    }

    pub(super) fn children<'a>(
        &'a self,
        path: &'a Path,
    ) -> impl Iterator<Item = (&'a PathBuf, &'a Entry)> {
        self.0.iter().filter(move |(child, _)| child.parent() == Some(path))
    }

    pub(super) fn is_empty_directory(&self, path: &Path) -> bool {
        self.get(path) == Some(&Entry::Directory) && self.children(path).next().is_none()
    }

    /// Walks from the root to `target` and returns the state of this path. `is_mount` says whether a directory
    /// is a mount point.
    pub(super) fn walk(&self, target: &MountPoint, is_mount: impl Fn(&Path) -> bool) -> PathState {
        let mut at = target.root().to_owned();
        for part in target.below().parent().into_iter().flat_map(Path::components) {
            at.push(part);
            match self.get(&at) {
                None => return PathState::Absent,
                Some(Entry::Link(_) | Entry::PlantedLink(_)) => return PathState::Symlink { at },
                Some(Entry::File | Entry::PlantedFile) => return PathState::NotDirectory { at },
                Some(Entry::Directory) if is_mount(&at) => return PathState::ThroughMount { at },
                Some(Entry::Directory) => {}
            }
        }
        let at = target.path();
        match self.get(&at) {
            None => PathState::Absent,
            Some(Entry::Link(_) | Entry::PlantedLink(_)) => PathState::Symlink { at },
            Some(Entry::File) => PathState::File { empty: !is_mount(&at) },
            Some(Entry::PlantedFile) => PathState::File { empty: false },
            Some(Entry::Directory) => {
                PathState::Directory { empty: !is_mount(&at) && self.is_empty_directory(&at) }
            }
        }
    }

    pub(super) fn planted(&self) -> Vec<(&PathBuf, &Entry)> {
        let planted = |entry: &Entry| matches!(entry, Entry::PlantedFile | Entry::PlantedLink(_));
        self.0.iter().filter(|(_, entry)| planted(entry)).collect()
    }

    /// Returns whether all remaining files and links were planted, so that none is Warren's.
    pub(super) fn only_planted(&self) -> bool {
        self.0.values().all(|entry| !matches!(entry, Entry::File | Entry::Link(_)))
    }
}

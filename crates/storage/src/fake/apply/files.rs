//! Applies steps that change mount points, other directories, and the links of an index tree.

use crate::{
    desired::{IndexLink, MountPoint},
    fake::errno,
    fake::{FakeHost, files::Entry, refused},
    host::StepError,
    observed::PathState,
};

impl FakeHost {
    pub(super) fn create_point(&self, target: &MountPoint, file: bool) -> Result<(), StepError> {
        let mut local = self.local();
        match local.walk(target) {
            PathState::Absent => {}
            PathState::Directory { .. } | PathState::File { .. } | PathState::BlockDevice => {
                return Ok(());
            }
            PathState::Other
            | PathState::Symlink { .. }
            | PathState::NotDirectory { .. }
            | PathState::ThroughMount { .. } => {
                return Err(StepError::Changed(format!(
                    "the path {target} can no longer be walked"
                )));
            }
        }
        let path = target.path();
        path.parent().into_iter().for_each(|parent| local.files.make_directories(parent));
        local.files.put(&path, if file { Entry::File } else { Entry::Directory });
        Ok(())
    }

    pub(super) fn remove_point(&self, target: &MountPoint) {
        self.remove(target);
        loop {
            let above = self.local().left_above(target);
            let Some(above) = above else { return };
            self.remove(&above);
        }
    }

    fn remove(&self, target: &MountPoint) {
        let mut local = self.local();
        let path = target.path();
        let empty = match local.files.get(&path) {
            Some(Entry::Directory) => local.files.is_empty_directory(&path),
            Some(Entry::File) => true,
            Some(Entry::Link(_) | Entry::PlantedLink(_) | Entry::PlantedFile) | None => false,
        };
        if empty && local.mounted(&path).is_none() {
            local.files.remove(&path);
        }
    }

    pub(super) fn link(&self, root: &MountPoint, link: &IndexLink) -> Result<(), StepError> {
        let mut local = self.local();
        let path = root.path().join(link.compute().as_str());
        if !matches!(local.walk(root), PathState::Directory { .. }) {
            return Err(refused("link", root, errno::ENOENT));
        }
        match local.files.get(&path) {
            Some(Entry::Directory | Entry::File | Entry::PlantedFile) => {
                Err(refused("link", root, errno::EEXIST))
            }
            Some(Entry::Link(_) | Entry::PlantedLink(_)) | None => {
                local.files.put(&path, Entry::Link(link.target().to_owned()));
                Ok(())
            }
        }
    }

    pub(super) fn unlink(&self, root: &MountPoint, name: &str) {
        let mut local = self.local();
        let path = root.path().join(name);
        if let Some(Entry::Link(_) | Entry::PlantedLink(_)) = local.files.get(&path) {
            local.files.remove(&path);
        }
    }
}

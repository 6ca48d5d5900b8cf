//! Namespaces on a host that was given access: a compute, and the rabbit's own view.

use std::{collections::BTreeSet, io, path::Path, time::Duration};

use super::{
    super::{Drives, untaken},
    ioctl::Controller,
    sysfs::{BlockNode, Sysfs},
};
use crate::{
    Observed, Step,
    desired::{AllocationId, NamespaceId},
    host::{ObserveError, StepError},
    linux::busy::pause_for,
    observed::{BlockDevice, DeviceNumber},
};

/// The kernel finds a new namespace when the drive announces it. When the announcement was lost the kernel must be
/// asked to rescan, and no event reports the end of its scan: these pauses add up to half a second.
const PAUSES_MS: [u16; 5] = [10, 40, 100, 150, 200];

/// Namespaces of drives that another node manages.
#[derive(Debug)]
pub(in crate::linux) struct ReachedNamespaces {
    reach: Reach,
}

impl ReachedNamespaces {
    pub(in crate::linux) fn new() -> Self {
        Self { reach: Reach::new(Path::new("/sys")) }
    }
}

impl Drives for ReachedNamespaces {
    fn inventory(&self) -> Result<Observed, ObserveError> {
        Ok(Observed::default())
    }

    /// The rabbit records owners; here `made_for` is unknown.
    fn device(
        &self,
        id: &NamespaceId,
        _: Option<AllocationId>,
    ) -> Result<Option<BlockDevice>, ObserveError> {
        let found = self.reach.find(id, |_| true).map_err(unreadable)?;
        Ok(found.map(|found| found.device))
    }

    fn devices(
        &self,
        ids: &[NamespaceId],
        _: Option<AllocationId>,
    ) -> Result<Vec<Option<BlockDevice>>, ObserveError> {
        let found = self.reach.find_patiently(ids, |_| true).map_err(unreadable)?;
        Ok(found.into_iter().map(|device| device.map(|block| block.device)).collect())
    }

    fn namespace_of(&self, device: DeviceNumber) -> Option<NamespaceId> {
        self.reach.sysfs.of_number(device)
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        Err(untaken(step, "this node manages no drives"))
    }
}

/// Finds the device of a namespace.
#[derive(Debug, Clone)]
pub(super) struct Reach {
    pub(super) sysfs: Sysfs,
}

impl Reach {
    pub(super) fn new(sysfs: &Path) -> Self {
        Self { sysfs: Sysfs::new(sysfs) }
    }

    /// The namespace's block device, when there is one that `is_it` accepts.
    pub(super) fn find(
        &self,
        id: &NamespaceId,
        is_it: impl Fn(&BlockNode) -> bool,
    ) -> io::Result<Option<BlockNode>> {
        Ok(self.sysfs.blocks_of(id)?.into_iter().find(is_it))
    }

    /// The same for many namespaces. Once, the kernel rescans the controllers of the drives with missing namespaces;
    /// all namespaces are waited for together.
    pub(super) fn find_patiently(
        &self,
        ids: &[NamespaceId],
        is_it: impl Fn(&BlockNode) -> bool,
    ) -> io::Result<Vec<Option<BlockNode>>> {
        let rescan = |controller: &str| Controller::new(controller).rescan().is_ok();
        self.find_after(rescan, pause_for, ids, is_it)
    }

    fn find_after(
        &self,
        rescan: impl Fn(&str) -> bool,
        pause: impl Fn(Duration),
        ids: &[NamespaceId],
        is_it: impl Fn(&BlockNode) -> bool,
    ) -> io::Result<Vec<Option<BlockNode>>> {
        let mut found =
            ids.iter().map(|id| self.find(id, &is_it)).collect::<io::Result<Vec<_>>>()?;
        let missing: BTreeSet<_> = ids
            .iter()
            .zip(&found)
            .filter(|(_, device)| device.is_none())
            .map(|(id, _)| &id.subsystem)
            .collect();
        if missing.is_empty() {
            return Ok(found);
        }
        let controllers = self.sysfs.controllers()?;
        let concerned = controllers.iter().filter(|controller| missing.contains(&controller.nqn));
        // A controller that is being removed cannot be asked; another may lead to the drive too.
        let asked = concerned.filter(|controller| rescan(&controller.name)).count();
        for milliseconds in PAUSES_MS.iter().filter(|_| asked > 0) {
            pause(Duration::from_millis((*milliseconds).into()));
            for (id, found) in ids.iter().zip(&mut found).filter(|(_, device)| device.is_none()) {
                *found = self.find(id, &is_it)?;
            }
            if found.iter().all(Option::is_some) {
                break;
            }
        }
        Ok(found)
    }
}

pub(super) fn unreadable(source: io::Error) -> ObserveError {
    ObserveError::Read { path: "/sys/class/nvme".to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, fs};

    use super::*;

    const DRIVES: usize = 16;

    fn nqn(drive: usize) -> String {
        format!("nqn.2019-08.org.qemu:drive{drive}")
    }

    fn put(sysfs: &Path, file: &str, text: &str) {
        let path = sysfs.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A controller for each drive, and another for the first; none has a namespace.
    fn drives(sysfs: &Path) {
        for (controller, drive) in (0..DRIVES).map(|drive| (drive, drive)).chain([(DRIVES, 0)]) {
            put(sysfs, &format!("class/nvme/nvme{controller}/subsysnqn"), &nqn(drive));
        }
    }

    fn namespace(sysfs: &Path, drive: usize) {
        let subsystem = format!("class/nvme-subsystem/nvme-subsys{drive}");
        put(sysfs, &format!("{subsystem}/subsysnqn"), &nqn(drive));
        for (attribute, text) in [
            ("nsid".to_owned(), "3".to_owned()),
            ("dev".to_owned(), format!("259:{drive}")),
            ("device/subsysnqn".to_owned(), nqn(drive)),
        ] {
            put(sysfs, &format!("{subsystem}/nvme{drive}n1/{attribute}"), &text);
        }
    }

    fn ids() -> Vec<NamespaceId> {
        (0..DRIVES).map(|drive| NamespaceId::parse(&nqn(drive), "3").unwrap()).collect()
    }

    /// The controllers that were asked, how often it was waited, and what was found.
    fn found_after(sysfs: &Path, meanwhile: impl Fn(usize)) -> (Vec<String>, usize, Vec<bool>) {
        let (asked, waited) = (RefCell::new(Vec::new()), RefCell::new(0));
        let rescan = |controller: &str| {
            asked.borrow_mut().push(controller.to_owned());
            true
        };
        let pause = |_| {
            *waited.borrow_mut() += 1;
            meanwhile(*waited.borrow());
        };
        let reach = Reach::new(sysfs);
        let found = reach.find_after(rescan, pause, &ids(), |_| true).unwrap();
        let found = found.iter().map(Option::is_some).collect();
        (asked.into_inner(), waited.into_inner(), found)
    }

    #[test]
    fn each_controller_is_asked_once_and_all_namespaces_are_waited_for_together() {
        let sysfs = tempfile::tempdir().unwrap();
        drives(sysfs.path());
        let (asked, waited, found) = found_after(sysfs.path(), |_| {});
        assert_eq!((asked.len(), waited), (DRIVES + 1, PAUSES_MS.len()));
        assert_eq!(found, [false; DRIVES]);

        let appear = |turn| match turn {
            1 => (1..DRIVES).for_each(|drive| namespace(sysfs.path(), drive)),
            2 => namespace(sysfs.path(), 0),
            _ => panic!("all are there"),
        };
        let (_, waited, found) = found_after(sysfs.path(), appear);
        assert_eq!((waited, found), (2, vec![true; DRIVES]));

        let (asked, waited, _) = found_after(sysfs.path(), |_| {});
        assert_eq!((asked.len(), waited), (0, 0), "nothing is missing");
        #[expect(clippy::disallowed_methods, reason = "the test planted this tree")]
        fs::remove_dir_all(sysfs.path().join("class/nvme-subsystem/nvme-subsys0")).unwrap();
        let (asked, _, _) = found_after(sysfs.path(), |_| {});
        assert_eq!(asked, ["nvme0", "nvme16"], "the other drives are left in peace");
    }

    #[test]
    fn nothing_is_waited_for_when_nobody_could_be_asked() {
        let sysfs = tempfile::tempdir().unwrap();
        drives(sysfs.path());
        let pause = |_| panic!("nothing would come");
        let found = Reach::new(sysfs.path()).find_after(|_| false, pause, &ids(), |_| true);
        assert_eq!(found.unwrap(), vec![None; DRIVES]);
    }
}

//! Finds the block devices of namespaces on a host that has access to them: a compute or the rabbit itself.

use std::{collections::BTreeSet, io, path::Path, time::Duration};

use storage::{
    Observed, Step,
    desired::{AllocationId, NamespaceId},
    host::{ObserveError, StepError},
    observed::{BlockDevice, DeviceNumber},
};

use super::{
    super::{Drives, unsupported},
    ioctl::Controller,
    sysfs::{BlockNode, Sysfs},
};
use block_devices::busy::pause_for;

/// Pauses after the agent requested a rescan, in milliseconds; half a second in all. Usually the kernel finds a new
/// namespace when the drive announces it. If the announcement was lost, the agent must request a rescan, and no
/// event reports the end of that scan.
const PAUSES_MS: [u16; 5] = [10, 40, 100, 150, 200];

/// Namespaces of drives that another node manages.
#[derive(Debug)]
pub struct ReachedNamespaces {
    reach: Reach,
}

impl Default for ReachedNamespaces {
    fn default() -> Self {
        Self { reach: Reach::new(Path::new("/sys")) }
    }
}

impl Drives for ReachedNamespaces {
    fn inventory(&self) -> Result<Observed, ObserveError> {
        Ok(Observed::default())
    }

    /// Ignores the allocation `made_for`: only the rabbit records the owners of namespaces.
    fn device(
        &self,
        id: &NamespaceId,
        _: Option<AllocationId>,
    ) -> Result<Option<BlockDevice>, ObserveError> {
        let found = self.reach.find(id, |_| true).map_err(unreadable)?;
        Ok(found.map(|found| found.device))
    }

    fn namespace_of(&self, device: DeviceNumber) -> Option<NamespaceId> {
        self.reach.sysfs.namespace_of(device)
    }

    fn reached_namespaces(&self) -> Result<BTreeSet<NamespaceId>, ObserveError> {
        self.reach.namespaces().map_err(unreadable)
    }

    fn apply(&self, step: &Step) -> Result<(), StepError> {
        match step {
            Step::Rescan { namespaces } => {
                self.reach.rescan(namespaces).map_err(StepError::system("rescan", step.on()))
            }
            other => Err(unsupported(other, "this node does not manage drives")),
        }
    }
}

/// Finds the device of a namespace on this node.
#[derive(Debug, Clone)]
pub(super) struct Reach {
    pub(super) sysfs: Sysfs,
}

impl Reach {
    pub(super) fn new(sysfs: &Path) -> Self {
        Self { sysfs: Sysfs::new(sysfs) }
    }

    /// Returns the namespaces of all NVMe block devices of this node.
    pub(super) fn namespaces(&self) -> io::Result<BTreeSet<NamespaceId>> {
        let blocks = self.sysfs.blocks()?;
        Ok(blocks.into_iter().map(|block| block.device.namespace).collect())
    }

    /// Returns a block device of the namespace that `accepts` approves, if there is one.
    pub(super) fn find(
        &self,
        id: &NamespaceId,
        accepts: impl Fn(&BlockNode) -> bool,
    ) -> io::Result<Option<BlockNode>> {
        Ok(self.sysfs.blocks_of(id)?.into_iter().find(accepts))
    }

    /// Makes the kernel rescan for namespaces, and waits until they appear.
    pub(super) fn rescan(&self, ids: &[NamespaceId]) -> io::Result<()> {
        self.find_with_rescan(ids, |_| true).map(drop)
    }

    /// Returns the block devices of many namespaces. If namespaces are missing, makes the kernel rescan the controllers
    /// of their drives, each once, and then waits for all missing namespaces together.
    pub(super) fn find_with_rescan(
        &self,
        ids: &[NamespaceId],
        accepts: impl Fn(&BlockNode) -> bool,
    ) -> io::Result<Vec<Option<BlockNode>>> {
        let rescan = |controller: &str| Controller::new(controller).rescan().is_ok();
        self.find_after(rescan, pause_for, ids, accepts)
    }

    fn find_after(
        &self,
        rescan: impl Fn(&str) -> bool,
        pause: impl Fn(Duration),
        ids: &[NamespaceId],
        accepts: impl Fn(&BlockNode) -> bool,
    ) -> io::Result<Vec<Option<BlockNode>>> {
        let mut found =
            ids.iter().map(|id| self.find(id, &accepts)).collect::<io::Result<Vec<_>>>()?;
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
        // A controller that is being removed cannot rescan; another controller may lead to the same drive.
        let rescanned = concerned.filter(|controller| rescan(&controller.name)).count();
        for milliseconds in PAUSES_MS.iter().filter(|_| rescanned > 0) {
            pause(Duration::from_millis((*milliseconds).into()));
            for (id, found) in ids.iter().zip(&mut found).filter(|(_, device)| device.is_none()) {
                *found = self.find(id, &accepts)?;
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

    /// Adds a controller for each drive, and a second controller for the first drive; none of the
    /// controllers has a namespace.
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

    /// Returns the controllers that were rescanned, the number of pauses, and for each namespace
    /// whether it was found.
    fn found_after(sysfs: &Path, meanwhile: impl Fn(usize)) -> (Vec<String>, usize, Vec<bool>) {
        let (rescanned, pauses) = (RefCell::new(Vec::new()), RefCell::new(0));
        let rescan = |controller: &str| {
            rescanned.borrow_mut().push(controller.to_owned());
            true
        };
        let pause = |_| {
            *pauses.borrow_mut() += 1;
            meanwhile(*pauses.borrow());
        };
        let reach = Reach::new(sysfs);
        let found = reach.find_after(rescan, pause, &ids(), |_| true).unwrap();
        let found = found.iter().map(Option::is_some).collect();
        (rescanned.into_inner(), pauses.into_inner(), found)
    }

    #[test]
    fn find_after_rescans_each_concerned_controller_once_and_waits_for_all_namespaces_together() {
        let sysfs = tempfile::tempdir().unwrap();
        drives(sysfs.path());
        let (rescanned, pauses, found) = found_after(sysfs.path(), |_| {});
        assert_eq!((rescanned.len(), pauses), (DRIVES + 1, PAUSES_MS.len()));
        assert_eq!(found, [false; DRIVES]);

        let appear = |turn| match turn {
            1 => (1..DRIVES).for_each(|drive| namespace(sysfs.path(), drive)),
            2 => namespace(sysfs.path(), 0),
            _ => panic!("waited although all namespaces were found"),
        };
        let (_, pauses, found) = found_after(sysfs.path(), appear);
        assert_eq!((pauses, found), (2, vec![true; DRIVES]));

        let (rescanned, pauses, _) = found_after(sysfs.path(), |_| {});
        assert_eq!((rescanned.len(), pauses), (0, 0), "nothing is missing");
        #[expect(clippy::disallowed_methods, reason = "the test planted this tree")]
        fs::remove_dir_all(sysfs.path().join("class/nvme-subsystem/nvme-subsys0")).unwrap();
        let (rescanned, _, _) = found_after(sysfs.path(), |_| {});
        assert_eq!(
            rescanned,
            ["nvme0", "nvme16"],
            "controllers of the other drives are not rescanned"
        );
    }

    #[test]
    fn find_does_not_wait_when_no_controller_can_be_rescanned() {
        let sysfs = tempfile::tempdir().unwrap();
        drives(sysfs.path());
        let pause = |_| panic!("no scan was begun");
        let found = Reach::new(sysfs.path()).find_after(|_| false, pause, &ids(), |_| true);
        assert_eq!(found.unwrap(), vec![None; DRIVES]);
    }
}

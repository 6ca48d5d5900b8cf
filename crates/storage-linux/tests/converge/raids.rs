//! Tests that a RAID is repaired after the loss of any drive, with failures and restarts between all steps, and keeps its
//! data.

use super::*;
use storage::desired::Reported;

use crate::wishes::{raid, raid_allocation, raid_mount, raid_namespaces};

/// A drive of the RAID is lost.
#[derive(Debug, Clone)]
struct Loss {
    /// Which of the RAID's drives is lost.
    which: usize,
    /// Whether another drive takes the slot; otherwise the drive returns.
    is_swapped: bool,
    /// Whether the agent works on the volume before that.
    is_seen: bool,
    reboots: bool,
    /// Whether the file system is mounted when the drive is lost.
    is_mounted: bool,
    /// Failures during the work on the allocation, and on the volume.
    faults: Vec<Option<(usize, Fault)>>,
}

fn loss() -> impl Strategy<Value = Loss> {
    let faults = prop::collection::vec(fault(), 1..4);
    (0..4usize, any::<[bool; 4]>(), faults).prop_map(|(which, events, faults)| {
        let [is_swapped, is_seen, reboots, is_mounted] = events;
        Loss { which, is_swapped, is_seen, reboots, is_mounted, faults }
    })
}

/// A rabbit with five drives, and what the status of the allocation's object reports.
struct Site {
    host: Arc<FakeHost>,
    converger: Converger,
    reported: Vec<Reported>,
}

impl Site {
    fn new() -> Self {
        let node = "rabbit-1".parse().unwrap();
        let host = Arc::new(FakeHost::with_drives(node, roots(), 5, 1 << 30));
        Self { converger: Converger::new(host.clone()), host, reported: Vec::new() }
    }

    /// Converges a unit, with a failure of one step. The work may fail; the caller works again.
    fn converge(&self, desired: &Desired, fault: Option<(usize, Fault)>) -> bool {
        if let Some((after, fault)) = fault {
            self.host.fail(after, fault);
        }
        let converged = self.converger.converge(desired);
        self.host.fail(usize::MAX, Fault::Before);
        converged.is_ok()
    }

    /// Brings the allocation and the volume to the desired state; `fault` fails one step of each.
    fn work(&mut self, fault: Option<(usize, Fault)>) {
        let reported = self.reported.clone();
        let allocation = Allocation { reported, ..raid_allocation() };
        if self.converge(&Desired::Allocated(allocation), fault) {
            self.reported = raid_namespaces(&self.host);
        }
        self.converge(&Desired::FileSystemReady(raid(&self.host)), fault);
    }

    /// Works until nothing is left to do. The first work ends when the RAID begins to synchronise.
    fn settle(&mut self) {
        for _ in 0..3 {
            self.work(None);
            self.host.synchronise();
        }
    }

    fn lose(&mut self, loss: &Loss) {
        let lost = raid(&self.host).volume.namespaces[loss.which].subsystem.clone();
        let observed = self.host.observe(&Desired::Inventory).unwrap();
        let slot = observed.drives.iter().find(|drive| drive.nqn == lost).unwrap().slot;
        self.host.pull_drive(slot);
        if loss.is_seen {
            self.work(None);
        }
        if loss.reboots {
            self.host.reboot();
        }
        if loss.is_swapped { self.host.swap_drive(slot) } else { self.host.put_drive_back(slot) }
    }

    /// Checks that the RAID has all its parts and its data.
    fn check(&self) -> Result<(), TestCaseError> {
        let ready = Desired::FileSystemReady(raid(&self.host));
        prop_assert_eq!(self.converger.plan(&ready).unwrap(), vec![]);
        let report = self.host.observe(&ready).unwrap().volume.unwrap().lvm.unwrap().report;
        let groups = report.unwrap().groups;
        prop_assert_eq!((groups[0].missing, groups[0].volumes.len()), (0, 1), "{:?}", groups);
        prop_assert_eq!(self.reported.len(), 4);
        let mounted = Desired::Mounted(raid_mount(&self.host));
        let mounting = self.converger.converge(&mounted);
        prop_assert!(mounting.is_ok(), "the file system is kept: {:?}", mounting);
        let signature = self.host.observe(&mounted).unwrap().volume.unwrap().signature;
        prop_assert_eq!(signature, Some(Signature::Ours(raid(&self.host).id)));
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_raid_is_repaired_after_the_loss_of_any_drive_and_keeps_its_data(
        losses in prop::collection::vec(loss(), 1..5),
    ) {
        let mut site = Site::new();
        site.settle();
        site.check()?;
        for loss in &losses {
            if !loss.is_mounted {
                site.converger.converge(&Desired::Unmounted(raid_mount(&site.host))).unwrap();
            }
            site.lose(loss);
            loss.faults.iter().for_each(|fault| site.work(*fault));
            site.settle();
            site.check()?;
        }
    }
}

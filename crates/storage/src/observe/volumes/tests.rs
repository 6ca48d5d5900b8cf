use super::*;
use crate::{
    desired::NamespaceId,
    health::GroupFacts,
    observed::{Attached, DeviceNumber, Drive, NamespaceOwner, PhysicalVolume, WARRENS},
};

fn id(drive: u8) -> NamespaceId {
    NamespaceId::parse(&format!("nqn.2026-01.io.warren:d{drive}"), "1").unwrap()
}

fn path(drive: u8) -> PathBuf {
    format!("/dev/nvme{drive}n1").into()
}

fn drive(drive: u8) -> Drive {
    Drive { slot: drive.into(), capacity: 100, ..Drive::with_nqn(id(drive).subsystem) }
}

/// An observation of a RAID on drives 0 and 1, and of the spare drive 2.
struct Rabbit {
    observed: Observed,
    devices: Vec<BlockDevice>,
    physical: Vec<PhysicalVolume>,
    missing: u32,
}

impl Rabbit {
    fn well() -> Self {
        let drives = (0..3).map(drive).collect();
        let observed = Observed { drives, ..Observed::default() };
        let (devices, physical) = (Vec::new(), Vec::new());
        let mut rabbit = Self { observed, devices, physical, missing: 0 };
        for drive in 0..2 {
            rabbit.namespace(drive);
            rabbit.give(drive);
            rabbit.attach(drive);
            rabbit.physical(drive, Membership::Of("vg".to_owned()));
        }
        rabbit
    }

    fn namespace(&mut self, drive: u8) {
        let owner = "a4f0c1de-5d7f-4c1b-9f6e-0c0e7d0f8a11".parse().unwrap();
        self.observed.namespaces.push(Namespace {
            id: id(drive),
            owner: NamespaceOwner::Ours(AllocationId { owner, index: 0 }),
            size: 4096,
            access: [].into(),
            device: None,
            members: 2,
            needs_erasure: true,
            needs_zeroing: false,
        });
    }

    /// Makes the drive report that the rabbit has access to the namespace.
    fn give(&mut self, drive: u8) {
        let node = "rabbit-1".parse().unwrap();
        let namespace = self
            .observed
            .namespaces
            .iter_mut()
            .find(|namespace| namespace.id == id(drive))
            .unwrap();
        namespace.access.insert(Attached { endpoint: Some(Endpoint::Rabbit), node });
    }

    fn attach(&mut self, drive: u8) {
        let number = DeviceNumber { major: 259, minor: drive.into() };
        self.devices.push(BlockDevice { namespace: id(drive), path: path(drive), number });
    }

    fn detach(&mut self, drive: u8) {
        self.devices.retain(|device| device.namespace != id(drive));
        self.physical.retain(|physical| physical.device != path(drive));
        self.missing += 1;
    }

    fn physical(&mut self, drive: u8, membership: Membership) {
        self.physical.push(PhysicalVolume { device: path(drive), membership });
    }

    fn describe_group(&self) -> OwnGroup {
        let group = VolumeGroup {
            name: "vg".into(),
            tags: vec![WARRENS.into()],
            missing: self.missing,
            ..VolumeGroup::default()
        };
        let report = LvmReport { physical: self.physical.clone(), ..LvmReport::default() };
        let (devices, observed) = (&self.devices, &self.observed);
        GroupContext { report: &report, devices, observed }.describe(&group)
    }

    /// Returns the number of missing members, and the reasons.
    fn missing_members(&self) -> (u32, Vec<String>) {
        let facts = GroupFacts::from_group(&self.describe_group()).unwrap();
        let lost = facts.lost.into_iter();
        (facts.missing, lost.map(|why| why.split_once(": ").unwrap().1.to_owned()).collect())
    }
}

#[test]
fn a_volume_group_lacks_a_member_until_the_replacement_of_the_lost_drive_joins_it() {
    let mut rabbit = Rabbit::well();
    assert_eq!(rabbit.missing_members(), (0, Vec::new()));
    rabbit.detach(1);
    rabbit.observed.drives[1].fault = Some("drive 2 is in its slot".into());
    assert_eq!(rabbit.missing_members().0, 1);
    let gone = "drive 2 is in its slot";
    rabbit.namespace(2);
    assert_eq!(
        rabbit.missing_members(),
        (1, vec![gone.into()]),
        "the replacement is created but not attached"
    );
    rabbit.give(2);
    let without_device = "it is attached to this rabbit, but has no block device here";
    assert_eq!(rabbit.missing_members(), (1, vec![gone.into(), without_device.into()]));
    rabbit.attach(2);
    let expected = (1, vec![gone.into(), "LVM finds no member on /dev/nvme2n1".into()]);
    assert_eq!(
        rabbit.missing_members(),
        expected,
        "no command made the replacement a member of the group"
    );
    rabbit.physical(2, Membership::Free);
    assert_eq!(
        rabbit.missing_members(),
        expected,
        "vgextend did not add the replacement to the group"
    );
    rabbit.physical.pop();
    rabbit.physical(2, Membership::Of("vg".into()));
    rabbit.missing = 0;
    assert_eq!(rabbit.missing_members().0, 0, "the group was repaired");
}

#[test]
fn a_member_that_is_attached_but_not_used_by_lvm_counts_as_missing() {
    let mut rabbit = Rabbit::well();
    rabbit.detach(1);
    let without_device = "it is attached to this rabbit, but has no block device here";
    assert_eq!(rabbit.missing_members(), (1, vec![without_device.into()]));
    rabbit.attach(1);
    assert_eq!(rabbit.missing_members(), (1, vec!["LVM finds no member on /dev/nvme1n1".into()]));
    rabbit.physical(1, Membership::Stale("vg".into()));
    let (missing, lost) = rabbit.missing_members();
    assert!(missing == 1 && lost[0].contains("continued without /dev/nvme1n1"), "{lost:?}");
}

#[test]
fn a_member_that_is_not_attached_does_not_count_as_missing() {
    let mut rabbit = Rabbit::well();
    rabbit.detach(1);
    rabbit.observed.namespaces[1].access.clear();
    assert_eq!(rabbit.describe_group().unattached, [id(1)]);
    assert_eq!(rabbit.missing_members(), (0, Vec::new()));
}

//! Objects for tests, from the fixtures of `api`.

#![expect(clippy::unwrap_used, reason = "a test fails where a fixture is wrong")]

use std::{collections::BTreeSet, sync::Arc};

use api::{ClientMount, NnfStorageProfile};
use serde::de::DeserializeOwned;
use storage::{
    Converger, Desired,
    desired::{
        Access, Allocation, AllocationId, AllowedRoots, Endpoint, FileSystemId, MountPoint,
        NamespaceId, NodeName, Spread,
    },
    fake::FakeHost,
    observed::{NamespaceOwner, Signature},
};

use crate::{
    desired::{Profile, ReferenceError},
    records::MountRecords,
    site::{IndexRoot, Side, Site},
    volumes::Volumes,
};

pub const UID: &str = "0fabbc24-a452-45f6-9e12-033275fc6fa5";

fn fixture<T: DeserializeOwned>(yaml: &str) -> T {
    serde_saphyr::from_str(yaml).unwrap()
}

fn with_uid(mut object: ClientMount) -> ClientMount {
    object.metadata.uid = Some(UID.into());
    object
}

/// Returns a ClientMount on compute-1, of an XFS on two NVMe namespaces.
pub fn compute_xfs() -> ClientMount {
    with_uid(fixture(include_str!("../../api/fixtures/clientmount-compute-xfs-new.yaml")))
}

/// Returns a ClientMount of a raw device on compute-2.
pub fn compute_raw() -> ClientMount {
    with_uid(fixture(include_str!("../../api/fixtures/clientmount-compute-raw.yaml")))
}

/// Returns a ClientMount of a GFS2 on compute-1.
pub fn compute_gfs2() -> ClientMount {
    with_uid(fixture(include_str!("../../api/fixtures/clientmount-compute-gfs2-failed.yaml")))
}

/// Returns a ClientMount of a Lustre on compute-1.
pub fn compute_lustre() -> ClientMount {
    with_uid(fixture(include_str!("../../api/fixtures/clientmount-compute-lustre.yaml")))
}

/// Returns a ClientMount of the index tree of three computes on rabbit-1.
pub fn rabbit_index() -> ClientMount {
    with_uid(fixture(include_str!("../../api/fixtures/clientmount-rabbit-index-xfs.yaml")))
}

/// Returns a ClientMount of four allocations on rabbit-1, at mount points that a site's controllers named.
pub fn rabbit_gfs2() -> ClientMount {
    with_uid(fixture(include_str!("../../api/fixtures/clientmount-rabbit-gfs2.yaml")))
}

pub fn profile() -> NnfStorageProfile {
    fixture(include_str!("../../api/fixtures/nnfstorageprofile-pinned.yaml"))
}

/// Returns the node that `object` names, with the default mount root.
pub fn site(object: &ClientMount, side: Side) -> Site {
    let roots = AllowedRoots::new(["/mnt/nnf".into()]).unwrap();
    Site {
        node: object.spec.node.parse().unwrap(),
        side,
        roots,
        index_root: None,
        volumes: Volumes::Plain,
    }
}

pub fn with_index_root(site: Site) -> Site {
    Site { index_root: Some(IndexRoot::new("/mnt/index".into()).unwrap()), ..site }
}

/// Returns the namespaces of a rabbit's allocation: one NVMe namespace, whose id is the allocation's index plus 1.
pub fn references(
    reference: &api::client_mount::ClientMountDeviceReference,
) -> Result<Vec<NamespaceId>, ReferenceError> {
    let nsid = (reference.allocation_index() + 1).to_string();
    Ok(vec![NamespaceId::parse("nqn.2026-01.org.example.rabbit:r1d00", &nsid).unwrap()])
}

pub const NO_PROFILE: Profile<'static> =
    Err("NnfStorageProfile default/fluxjob-7001-0 does not exist: create it");

pub fn point(path: &str) -> MountPoint {
    MountPoint::parse(path, &roots()).unwrap()
}

fn roots() -> AllowedRoots {
    AllowedRoots::new(["/mnt/nnf".into(), "/mnt/index".into()]).unwrap()
}

/// A fake rabbit, and one fake compute that is connected to the rabbit's drives. Each of `count` allocations contains
/// a finished file system.
#[derive(Debug)]
pub struct Chassis {
    pub rabbit: Arc<FakeHost>,
    pub compute: Arc<FakeHost>,
    pub namespaces: Vec<NamespaceId>,
    state: tempfile::TempDir,
}

const STORAGE_UID: &str = "5414be5d-cb85-4d69-81ef-4ecbd109dedc";

impl Chassis {
    pub fn new(count: u32) -> Self {
        let rabbit = Arc::new(FakeHost::with_drives(node("rabbit-1"), roots(), 1, 1 << 40));
        let compute = Arc::new(rabbit.peer(node("compute-1")));
        let namespaces = (0..count).map(|index| allocate(&rabbit, index)).collect();
        Self { rabbit, compute, namespaces, state: tempfile::tempdir().unwrap() }
    }

    /// Opens the records of the compute's agents.
    pub fn records(&self) -> Arc<MountRecords> {
        Arc::new(MountRecords::open(self.state.path()).unwrap())
    }

    /// Removes the records, as an administrator may do to clear the agent's state.
    pub fn lose_records(&self) {
        #[expect(clippy::disallowed_methods, reason = "the test planted this tree")]
        std::fs::remove_dir_all(self.state.path().join("mounts")).unwrap();
    }

    /// Makes the records unreadable and impossible to remove.
    pub fn break_records(&self) {
        for record in std::fs::read_dir(self.state.path().join("mounts")).unwrap() {
            let path = record.unwrap().path();
            std::fs::remove_file(&path).unwrap();
            std::fs::create_dir(&path).unwrap();
        }
    }

    /// Returns the compute's ClientMount `job-<index>`, of the allocation with this index, at `/mnt/nnf/job-<index>`.
    pub fn object(&self, index: usize) -> ClientMount {
        let mut object = compute_xfs();
        object.metadata.uid = Some(format!("00000000-0000-4000-8000-{index:012}"));
        object.metadata.name = Some(format!("job-{index}"));
        object.metadata.resource_version = Some("1".into());
        let mount = &mut object.spec.mounts[0];
        mount.mount_path = format!("/mnt/nnf/job-{index}");
        mount.device.device_reference.as_mut().unwrap().data = Some(index.try_into().unwrap());
        let nvme = &mut mount.device.lvm.as_mut().unwrap().nvme_info;
        nvme.truncate(1);
        nvme[0].device_serial = self.namespaces[index].subsystem.to_string();
        nvme[0].namespace_id = self.namespaces[index].nsid.to_string();
        object
    }
}

impl Chassis {
    /// Returns the id of the file system in an allocation.
    pub fn file_system(&self, index: u32) -> FileSystemId {
        file_system(index)
    }

    /// Returns the compute's ClientMount `job-0`; each entry of `mounts` is the path of a mount beneath `/mnt/nnf` and
    /// the index of its allocation.
    pub fn object_with(&self, mounts: &[(&str, usize)]) -> ClientMount {
        let mut object = self.object(0);
        let mount = |(name, index): &(&str, usize)| {
            let mut mount = self.object(*index).spec.mounts.remove(0);
            mount.mount_path = format!("/mnt/nnf/{name}");
            mount
        };
        object.spec.mounts = mounts.iter().map(mount).collect();
        object
    }
}

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

fn allocate(rabbit: &Arc<FakeHost>, index: u32) -> NamespaceId {
    let id = AllocationId { owner: STORAGE_UID.parse().unwrap(), index };
    let access = BTreeSet::from([
        Access { endpoint: Endpoint::Rabbit, node: node("rabbit-1") },
        Access { endpoint: Endpoint::Compute(0), node: node("compute-1") },
    ]);
    let converger = Converger::new(Arc::<FakeHost>::clone(rabbit));
    let wanted = Allocation::new(id, 1 << 20, Spread::ONE, access);
    let desired = Desired::Allocated(wanted);
    let observed = converger.converge(&desired).unwrap().observed;
    let namespace = observed
        .namespaces
        .into_iter()
        .find(|namespace| namespace.owner == NamespaceOwner::Ours(id))
        .unwrap();
    rabbit.plant_signature(&namespace.id, Signature::Ours(file_system(index)));
    namespace.id
}

fn file_system(index: u32) -> FileSystemId {
    let owner = "b07f6a0e-59f1-4f0a-b6a4-6c1f7a9e2d15".parse().unwrap();
    FileSystemId::derive(owner, "rabbit-1", "default-fluxjob-7001-0-xfs-0", index)
}

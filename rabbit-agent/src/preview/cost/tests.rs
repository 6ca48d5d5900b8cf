use std::collections::BTreeSet;

use storage::{
    desired::AllocationId,
    observed::{Namespace, Pool, VolumeDevice},
};

use super::*;
use crate::{
    kinds::container::step::{Attempt, PodName, Step as ContainerStep},
    samples,
};

fn allocation() -> AllocationId {
    AllocationId { owner: samples::BLOCK_UID.parse().unwrap(), index: 0 }
}

fn namespace_id(nsid: u32) -> NamespaceId {
    NamespaceId { subsystem: "nqn.x:d0".parse().unwrap(), nsid }
}

fn namespace(nsid: u32, owner: NamespaceOwner) -> Namespace {
    let (id, access) = (namespace_id(nsid), BTreeSet::new());
    Namespace {
        id,
        owner,
        size: 3 << 29,
        access,
        device: None,
        members: 1,
        needs_erasure: true,
        needs_zeroing: false,
    }
}

fn volume_step(action: VolumeAction) -> Step {
    Step::Volume { action, on: "vg/lv".into(), devices: Vec::new(), line: "vg/lv".into() }
}

fn zfs_step(action: ZfsAction) -> Step {
    Step::Zfs { action, on: "pool".into(), devices: Vec::new(), line: "pool".into() }
}

fn device() -> VolumeDevice {
    let storage = storage::observed::BlockDevice {
        namespace: namespace_id(1),
        path: "/dev/x".into(),
        number: storage::observed::DeviceNumber { major: 1, minor: 2 },
    };
    VolumeDevice::from(&storage)
}

#[test]
fn the_text_of_a_step_names_the_data_that_the_step_destroys() {
    let delete = |nsid| Step::DeleteNamespace { id: namespace_id(nsid), allocation: allocation() };
    let erase = |nsid| Step::EraseNamespace { id: namespace_id(nsid), allocation: allocation() };
    let forget = Step::ForgetNamespace { id: namespace_id(1), allocation: allocation() };
    let wipe = Step::WipeSignature {
        device: device(),
        id: storage::desired::FileSystemId::derive(
            samples::OWNER.parse().unwrap(),
            "rabbit-1",
            samples::NAME,
            0,
        ),
    };
    let detach = Step::Detach { id: namespace_id(1), node: "compute-01".parse().unwrap() };
    let interrupted = "holds no data: its creation was interrupted";
    let destroys = Some("destroys the data of user 1050");
    let cases = [
        (erase(1), Some("erases 1.5 GiB of user 1050, at most 1 h")),
        (erase(2), Some("1.5 GiB, holds no data: its creation was interrupted")),
        (delete(1), None),
        // The drive has no such namespace any more.
        (erase(3), None),
        (forget, Some("gives up the data of user 1050 on the lost drive")),
        (volume_step(VolumeAction::RemoveLogical), destroys),
        (volume_step(VolumeAction::RemoveGroup), destroys),
        (volume_step(VolumeAction::RemovePhysical), None),
        (volume_step(VolumeAction::Deactivate), None),
        (
            volume_step(VolumeAction::ReduceGroup),
            Some("gives up the data of user 1050 on the lost devices"),
        ),
        (zfs_step(ZfsAction::Destroy), destroys),
        (zfs_step(ZfsAction::Discard), Some(interrupted)),
        (zfs_step(ZfsAction::Replace), None),
        (wipe, Some(interrupted)),
        (detach, None),
    ];
    let observed = Observed {
        namespaces: vec![
            namespace(1, NamespaceOwner::Ours(allocation())),
            namespace(2, NamespaceOwner::Partial(allocation())),
        ],
        ..Observed::default()
    };
    let owner = DataOwner("user 1050".into());
    for (step, cost) in cases {
        let expected = cost.map_or_else(|| step.to_string(), |cost| format!("{step} ({cost})"));
        let stake = Stake { owner: &owner, observed: &observed, is_removed: true };
        assert_eq!(with_cost(&step, stake), expected);
    }
    let remove = volume_step(VolumeAction::RemoveLogical);
    let stake = Stake { owner: &owner, observed: &observed, is_removed: false };
    assert_eq!(with_cost(&remove, stake), format!("{remove} ({interrupted})"));
}

#[test]
fn a_file_drive_has_no_time_for_an_erasure() {
    let delete = Step::DeleteNamespace { id: namespace_id(1), allocation: allocation() };
    let in_file = namespace(1, NamespaceOwner::Ours(allocation()));
    let in_file = Namespace { needs_erasure: false, ..in_file };
    let observed = Observed {
        namespaces: vec![in_file],
        pool: Some(Pool { available: 1, promised: 0 }),
        ..Observed::default()
    };
    let owner = DataOwner("workflow job-7".into());
    let text = with_cost(&delete, Stake { owner: &owner, observed: &observed, is_removed: true });
    assert!(text.ends_with("(erases 1.5 GiB of workflow job-7)"), "{text}");
}

#[test]
fn the_owner_of_a_block_storage_is_the_user_of_the_storage_on_it() {
    let mut cache = Cache::new("rabbit-1".parse().unwrap());
    let block = samples::block_storage(&[(1, &["rabbit-1"])]);
    let workflow = DataOwner("workflow job-7".into());
    assert_eq!(DataOwner::of_block(&block, &cache), workflow);
    cache.apply(controller::Event::Applied(Ok(samples::node_storage(1, "xfs"))));
    let user = DataOwner::of_block(&block, &cache);
    assert_eq!(user, DataOwner("user 1050 (workflow job-7)".into()));
}

#[test]
fn the_text_of_a_step_on_containers_names_what_the_step_ends() {
    let pod = PodName { uid: samples::OWNER.parse().unwrap(), attempt: 2 };
    let attempt = Attempt { pod, grace: 30 };
    for (step, cost) in [
        (ContainerStep::Stop(attempt), Some("kills its processes after 30 s")),
        (ContainerStep::Remove(attempt), Some("kills its processes after 30 s, deletes its logs")),
        (ContainerStep::RemoveVolumes(pod), Some("deletes the files that its containers shared")),
        (ContainerStep::RemoveKeys(pod.uid), None),
    ] {
        let expected = cost.map_or_else(|| step.to_string(), |cost| format!("{step} ({cost})"));
        assert_eq!(with_container_cost(&step), expected);
    }
}

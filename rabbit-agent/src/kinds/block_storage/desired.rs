//! Turns a `NnfNodeBlockStorageSpec` into allocations, or into a user error; after a user error
//! the agent changes nothing.
//!
//! An object is checked as a whole: if one name cannot be resolved, the agent touches none of the object's allocations.
//! A job gets all of its storage or an error: half of the storage is useless to a job, and access that is granted by
//! guess would be worse.

mod error;

use std::collections::BTreeSet;

use api::{NnfNodeBlockStorage, nnf_node_block_storage::NnfNodeBlockStorageDeviceStatus};
use fence::{Fences, chassis::Chassis, is_shared};
use storage::desired::{
    Access, Allocation, AllocationId, NamespaceId, ObjectUid, Reported, Spread,
};

pub use error::BlockStorageError;

/// Settings for all allocations of this rabbit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocationPolicy {
    pub spread: Spread,
    /// Whether the agent replaces a namespace by a new one on another drive, once the namespace's
    /// own drive was exchanged.
    pub replace: bool,
}

/// Namespaces that the statuses of the rabbit's other NnfNodeBlockStorages name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Elsewhere {
    Reported(BTreeSet<NamespaceId>),
    /// Another object cannot be decoded: any namespace may be listed in its status.
    Unreadable,
}

impl Elsewhere {
    fn may_have(&self, id: &NamespaceId) -> bool {
        match self {
            Self::Reported(reported) => reported.contains(id),
            Self::Unreadable => true,
        }
    }
}

/// Maximum number of allocations of an object: a drive has at most a few thousand namespaces (NVM Express Base
/// Specification 2.0, Identify Controller `NN`).
const MOST_ALLOCATIONS: usize = 4096;

/// Returns the allocations that the object asks for, in its order.
pub fn desired(
    object: &NnfNodeBlockStorage,
    chassis: &Chassis,
    policy: AllocationPolicy,
    elsewhere: &Elsewhere,
) -> Result<Vec<Allocation>, BlockStorageError> {
    let owner = uid(object)?;
    let allocations = &object.spec.allocations;
    if allocations.len() > MOST_ALLOCATIONS {
        return Err(BlockStorageError::TooMany(allocations.len()));
    }
    let mut desired = Vec::new();
    for ((index, allocation), number) in allocations.iter().enumerate().zip(0..) {
        let capacity = u64::try_from(allocation.capacity).ok().filter(|bytes| *bytes > 0);
        let capacity =
            capacity.ok_or(BlockStorageError::Capacity { index, capacity: allocation.capacity })?;
        desired.push(Allocation {
            id: AllocationId { owner, index: number },
            capacity,
            spread: policy.spread,
            reported: reported(object, index, elsewhere)?,
            replace: policy.replace,
            access: access(index, &allocation.access, chassis)?,
        });
    }
    Ok(desired)
}

/// Returns the allocations in the object's status, with their reported namespaces; the spec is not read.
pub fn from_status(
    object: &NnfNodeBlockStorage,
    policy: AllocationPolicy,
    elsewhere: &Elsewhere,
) -> Result<Vec<Allocation>, BlockStorageError> {
    let owner = uid(object)?;
    let count = object.status.as_ref().map_or(0, |status| status.allocations.len());
    let allocation = |(index, number)| {
        let id = AllocationId { owner, index: number };
        let reported = reported(object, index, elsewhere)?;
        Ok(Allocation { reported, ..Allocation::new(id, 0, policy.spread, BTreeSet::new()) })
    };
    (0..count).zip(0..).map(allocation).collect()
}

/// Returns the allocations that the agent may make now: the object's allocations, without access of fenced
/// computes to a GFS2.
pub fn without_fenced(
    object: &NnfNodeBlockStorage,
    chassis: &Chassis,
    policy: AllocationPolicy,
    elsewhere: &Elsewhere,
    fences: &Fences,
) -> Result<Vec<Allocation>, BlockStorageError> {
    let mut allocations = desired(object, chassis, policy, elsewhere)?;
    if is_shared(&object.metadata) {
        fences.remove_fenced(&mut allocations)?;
    }
    Ok(allocations)
}

fn access(
    index: usize,
    names: &[String],
    chassis: &Chassis,
) -> Result<BTreeSet<Access>, BlockStorageError> {
    let access_of = |(place, name): (usize, &String)| {
        let invalid = |source| BlockStorageError::Access { index, place, source };
        chassis.access(name).map_err(invalid)
    };
    names.iter().enumerate().map(access_of).collect()
}

/// Returns the namespaces that the object's own status reports.
fn reported(
    object: &NnfNodeBlockStorage,
    index: usize,
    elsewhere: &Elsewhere,
) -> Result<Vec<Reported>, BlockStorageError> {
    let status = object.status.as_ref().map_or(&[][..], |status| &status.allocations);
    let devices = status.get(index).map_or(&[][..], |allocation| &allocation.devices);
    let others = status.iter().enumerate().filter(|(other, _)| *other != index);
    let others: Vec<_> = others.flat_map(|(_, allocation)| &allocation.devices).collect();
    let parse_device = |(place, device): (usize, &NnfNodeBlockStorageDeviceStatus)| {
        let wrong = |source| BlockStorageError::Device { index, place, source };
        let id = NamespaceId::parse(&device.nqn, &device.namespace_id).map_err(wrong)?;
        let twice = others
            .iter()
            .any(|other| (&other.nqn, &other.namespace_id) == (&device.nqn, &device.namespace_id));
        let contested = twice || elsewhere.may_have(&id);
        Ok(Reported { id, size: u64::try_from(device.capacity_allocated).unwrap_or(0), contested })
    };
    devices.iter().enumerate().map(parse_device).collect()
}

/// Returns the object's uid, which the ledgers of the drives record as the owner of its allocations.
pub fn uid(object: &NnfNodeBlockStorage) -> Result<ObjectUid, BlockStorageError> {
    object.metadata.uid.as_deref().unwrap_or_default().parse().map_err(BlockStorageError::Uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use storage::desired::Endpoint;

    fn error_of(object: &NnfNodeBlockStorage) -> BlockStorageError {
        desired(object, &samples::chassis(), samples::POLICY, &Elsewhere::Unreadable).unwrap_err()
    }

    #[test]
    fn the_endpoint_of_a_compute_is_its_slot_and_not_its_position_in_the_list() {
        let object = samples::block_storage(&[(1 << 20, &["rabbit-1", "compute-03"])]);
        let [allocation] = &samples::allocations(&object)[..] else { panic!("one") };
        let endpoints: Vec<_> = allocation.access.iter().map(|access| access.endpoint).collect();
        assert_eq!(endpoints, [Endpoint::Rabbit, Endpoint::Compute(6)]);
        assert_eq!((allocation.capacity, allocation.id.index), (1 << 20, 0));
    }

    #[test]
    fn the_error_for_a_capacity_below_1_names_field_and_value() {
        for capacity in [0, -5, i64::MIN] {
            let object =
                samples::block_storage(&[(1 << 20, &["rabbit-1"]), (capacity, &["rabbit-1"])]);
            let error = error_of(&object);
            assert_eq!(error, BlockStorageError::Capacity { index: 1, capacity });
            assert!(error.to_string().contains("spec.allocations[1].capacity"));
        }
    }

    #[test]
    fn one_unknown_compute_rejects_the_whole_object() {
        let object =
            samples::block_storage(&[(1, &["rabbit-1"]), (1, &["rabbit-1", "compute-77"])]);
        let error = error_of(&object);
        assert!(matches!(error, BlockStorageError::Access { index: 1, place: 1, .. }), "{error:?}");
    }

    #[test]
    fn a_reported_namespace_is_contested_if_another_object_may_have_it() {
        let mut object = samples::block_storage_ready(2);
        let reported = |object: &NnfNodeBlockStorage, elsewhere: &Elsewhere| {
            let wanted = desired(object, &samples::chassis(), samples::POLICY, elsewhere).unwrap();
            let reported = wanted.into_iter().flat_map(|allocation| allocation.reported);
            reported
                .map(|reported| (reported.id.nsid, reported.size, reported.contested))
                .collect::<Vec<_>>()
        };
        let no_other = Elsewhere::Reported(BTreeSet::new());
        assert_eq!(reported(&object, &no_other), [(1, 1 << 30, false), (2, 1 << 30, false)]);
        let second = NamespaceId::parse("nqn.2026-01.io.warren:d0", "2").unwrap();
        let another = Elsewhere::Reported(BTreeSet::from([second]));
        assert_eq!(reported(&object, &another), [(1, 1 << 30, false), (2, 1 << 30, true)]);
        assert!(reported(&object, &Elsewhere::Unreadable).iter().all(|device| device.2));

        let allocations = &mut object.status.as_mut().unwrap().allocations;
        allocations[1].devices[0].namespace_id = "1".into();
        assert!(
            reported(&object, &no_other).iter().all(|device| device.2),
            "both allocations report the namespace"
        );
        let allocations = &mut object.status.as_mut().unwrap().allocations;
        allocations[1].devices[0].namespace_id = "many".into();
        let error = error_of(&object);
        assert!(matches!(error, BlockStorageError::Device { index: 1, place: 0, .. }), "{error}");
    }

    #[test]
    fn an_object_without_uid_or_with_too_many_allocations_is_rejected() {
        let mut object = samples::block_storage(&[(1, &["rabbit-1"])]);
        object.metadata.uid = None;
        assert!(matches!(error_of(&object), BlockStorageError::Uid(_)));
        let many = vec![(1_i64, &["rabbit-1"][..]); MOST_ALLOCATIONS + 1];
        let error = error_of(&samples::block_storage(&many));
        assert_eq!(error, BlockStorageError::TooMany(MOST_ALLOCATIONS + 1));
    }
}

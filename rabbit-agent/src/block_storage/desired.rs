//! `NnfNodeBlockStorageSpec` to allocations. Every user error of the kind is born here, and then nothing is changed.
//!
//! An object is judged as a whole: one name that cannot be resolved, and none of its allocations is touched. A job gets
//! all of its storage or learns why not; half of it helps nobody, and access granted by guess would be worse.

use std::collections::BTreeSet;

use api::NnfNodeBlockStorage;
use storage::desired::{Allocation, AllocationId, NameError, ObjectUid};
use thiserror::Error;

use crate::chassis::{Chassis, ChassisError};

/// Why a NnfNodeBlockStorage cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BlockStorageError {
    /// `metadata.uid` is not one.
    #[error("metadata.uid")]
    Uid(#[source] NameError),
    /// Zero or negative.
    #[error("spec.allocations[{index}].capacity is {capacity} bytes: ask for at least 1")]
    Capacity {
        /// Which allocation.
        index: usize,
        /// As written.
        capacity: i64,
    },
    /// A name without a place.
    #[error("spec.allocations[{index}].access[{place}]")]
    Access {
        /// Which allocation.
        index: usize,
        /// Where in its list.
        place: usize,
        /// What is wrong with the name.
        #[source]
        source: ChassisError,
    },
    /// More allocations than a rabbit could ever hold.
    #[error("spec.allocations has {0} entries: at most {MOST_ALLOCATIONS} can be made")]
    TooMany(usize),
}

/// A drive has at most some thousand namespaces (NVM Express Base Specification 2.0, Identify Controller `NN`).
const MOST_ALLOCATIONS: usize = 4096;

/// The allocations that the object asks for, in its order.
///
/// # Errors
/// On the first field that cannot be carried out.
pub fn desired(
    object: &NnfNodeBlockStorage,
    chassis: &Chassis,
) -> Result<Vec<Allocation>, BlockStorageError> {
    let owner = uid(object)?;
    let allocations = &object.spec.allocations;
    if allocations.len() > MOST_ALLOCATIONS {
        return Err(BlockStorageError::TooMany(allocations.len()));
    }
    let mut desired = Vec::new();
    for ((index, asked), number) in allocations.iter().enumerate().zip(0..) {
        let capacity = u64::try_from(asked.capacity).ok().filter(|bytes| *bytes > 0);
        let capacity =
            capacity.ok_or(BlockStorageError::Capacity { index, capacity: asked.capacity })?;
        let mut access = BTreeSet::new();
        for (place, name) in asked.access.iter().enumerate() {
            let wrong = |source| BlockStorageError::Access { index, place, source };
            access.insert(chassis.access(name).map_err(wrong)?);
        }
        desired.push(Allocation { id: AllocationId { owner, index: number }, capacity, access });
    }
    Ok(desired)
}

/// The object's identity: what its allocations are known by on the drives.
///
/// # Errors
/// When the API gave it none.
pub fn uid(object: &NnfNodeBlockStorage) -> Result<ObjectUid, BlockStorageError> {
    object.metadata.uid.as_deref().unwrap_or_default().parse().map_err(BlockStorageError::Uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use storage::desired::Endpoint;

    #[test]
    fn access_goes_to_slots_and_not_to_places_in_a_list() {
        let object = samples::block_storage(&[(1 << 20, &["rabbit-1", "compute-03"])]);
        let [allocation] = &desired(&object, &samples::chassis()).unwrap()[..] else {
            panic!("one")
        };
        let endpoints: Vec<_> = allocation.access.iter().map(|it| it.endpoint).collect();
        assert_eq!(endpoints, [Endpoint::Rabbit, Endpoint::Compute(6)]);
        assert_eq!((allocation.capacity, allocation.id.index), (1 << 20, 0));
    }

    #[test]
    fn a_capacity_of_nothing_names_the_field_and_the_number() {
        for capacity in [0, -5, i64::MIN] {
            let object =
                samples::block_storage(&[(1 << 20, &["rabbit-1"]), (capacity, &["rabbit-1"])]);
            let error = desired(&object, &samples::chassis()).unwrap_err();
            assert_eq!(error, BlockStorageError::Capacity { index: 1, capacity });
            assert!(error.to_string().contains("spec.allocations[1].capacity"));
        }
    }

    #[test]
    fn one_unknown_compute_refuses_the_whole_object() {
        let object =
            samples::block_storage(&[(1, &["rabbit-1"]), (1, &["rabbit-1", "compute-77"])]);
        let error = desired(&object, &samples::chassis()).unwrap_err();
        assert!(matches!(error, BlockStorageError::Access { index: 1, place: 1, .. }), "{error:?}");
    }

    #[test]
    fn what_cannot_be_an_object_of_the_api_is_refused() {
        let mut object = samples::block_storage(&[(1, &["rabbit-1"])]);
        object.metadata.uid = None;
        assert!(matches!(desired(&object, &samples::chassis()), Err(BlockStorageError::Uid(_))));
        let many = vec![(1_i64, &["rabbit-1"][..]); MOST_ALLOCATIONS + 1];
        let error = desired(&samples::block_storage(&many), &samples::chassis());
        assert_eq!(error, Err(BlockStorageError::TooMany(MOST_ALLOCATIONS + 1)));
    }
}

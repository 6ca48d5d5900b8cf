//! What became of a NnfNodeStorage: its status. Pure.

use api::{
    NnfNodeStorage, NnfNodeStorageStatus, ResourceError,
    nnf_node_storage::{NnfNodeStorageAllocationStatus, NnfStorageHealth},
};

/// The status after its file systems converged (`true`) or failed.
///
/// Health is told only of what was seen; of a file system that failed it is not known, and left out.
#[must_use]
pub fn status(made: &[bool], error: Option<ResourceError>) -> NnfNodeStorageStatus {
    let allocation = |ready: bool| NnfNodeStorageAllocationStatus {
        health: ready.then_some(NnfStorageHealth::Healthy),
        ready,
        ..NnfNodeStorageAllocationStatus::default()
    };
    let ready = made.iter().all(|it| *it);
    NnfNodeStorageStatus {
        allocations: made.iter().map(|it| allocation(*it)).collect(),
        health: ready.then_some(NnfStorageHealth::Healthy),
        ready: ready && error.is_none(),
        error,
    }
}

/// The status when the object could not be acted on at all: as it was, with the error.
#[must_use]
pub fn refused(object: &NnfNodeStorage, error: ResourceError) -> NnfNodeStorageStatus {
    NnfNodeStorageStatus { error: Some(error), ..object.status.clone().unwrap_or_default() }
}

/// Whether any file system was once reported made: then tearing down without knowing how would lose what hooks must do.
#[must_use]
pub fn was_ever_made(object: &NnfNodeStorage) -> bool {
    object.status.as_ref().is_some_and(|status| status.allocations.iter().any(|it| it.ready))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples;

    #[test]
    fn the_status_has_the_shape_that_central_controllers_read() {
        let healthy = json!({"health": "Healthy", "ready": true});
        assert_eq!(
            serde_json::to_value(status(&[true, true], None)).unwrap(),
            json!({"allocations": [healthy, healthy], "health": "Healthy", "ready": true})
        );
    }

    #[test]
    fn one_that_failed_keeps_the_whole_from_being_ready() {
        let status =
            serde_json::to_value(status(&[true, false], Some(ResourceError::new("x")))).unwrap();
        assert_eq!(status["allocations"], json!([{"health": "Healthy", "ready": true}, {}]));
        assert_eq!((status.get("ready"), status.get("health")), (None, None));
    }

    #[test]
    fn a_refusal_leaves_what_is_known() {
        let mut object = samples::node_storage(1, "xfs");
        assert!(!was_ever_made(&object));
        object.status = Some(status(&[true], None));
        let after = refused(&object, ResourceError::new("x"));
        assert!(after.ready && after.error.is_some() && was_ever_made(&object));
    }
}

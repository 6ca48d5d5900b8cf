//! The NnfDataMovement of one allocation.

use std::collections::BTreeMap;

use ::movement::order::Share;
use api::{
    NnfDataMovement, NnfDataMovementSpec,
    names::{label, movement},
    nnf_data_movement::DataMovementPlace,
    nnf_data_movement_profile::IndexDirectories,
};
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use super::places::{Other, Place, Sides};
use crate::{
    names::{directive_object_name, movement_labels, reference, service_name},
    objects::{copy::Direction, view::View},
};

/// Returns the movement that copies to or from an allocation.
pub(super) fn new(
    view: &View<'_>,
    index: usize,
    sides: &Sides,
    (place, other_root): (&Place, &str),
    direction: Direction,
) -> NnfDataMovement {
    let own = side(&place.root, &sides.path, &sides.storage_reference);
    let other = match &sides.other {
        Other::Site { path, reference } => {
            DataMovementPlace { path: path.clone(), storage_reference: reference.clone() }
        }
        Other::Storage { path, reference, .. } | Other::Lustre { path, reference, .. } => {
            side(other_root, path, reference)
        }
    };
    let (source, destination) = match direction {
        Direction::In => (other, own),
        Direction::Out => (own, other),
    };
    let name = directive_object_name(&view.workflow, index);
    let mut labels = movement_labels(&view.workflow, index);
    labels.extend(copy_labels(direction));
    let directory = index_directory(view, index, sides, place);
    labels.extend(directory.map(|name| (movement::INDEX_DIRECTORY.to_owned(), name)));
    let share = share(sides, place);
    labels.extend(share.map(|share| (movement::SHARE.to_owned(), share.to_string())));
    let service = sides.is_by_mpi().then(|| service_name(&view.workflow, index));
    labels.extend(service.map(|name| (movement::MPI_RUN.to_owned(), name)));
    NnfDataMovement {
        metadata: ObjectMeta {
            name: Some(format!("{name}-{}", place.index)),
            namespace: Some(place.rabbit.clone()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec: NnfDataMovementSpec {
            source: source.into(),
            destination: destination.into(),
            user_id: view.workflow.spec.user_id,
            group_id: view.workflow.spec.group_id,
            cancel: false,
            profile_reference: reference("NnfDataMovementProfile", &name, &view.namespace()),
        },
        status: None,
    }
}

fn side(root: &str, path: &str, storage: &ObjectReference) -> DataMovementPlace {
    DataMovementPlace {
        path: format!("{root}{path}"),
        storage_reference: ObjectReference { field_path: Some(root.to_owned()), ..storage.clone() },
    }
}

/// Returns the part of the source that a rabbit copies, when several rabbits divide the source.
fn share(sides: &Sides, place: &Place) -> Option<Share> {
    let index = sides.places.iter().position(|(other, _)| other == place)?;
    let number = |number: usize| u16::try_from(number).ok();
    let share = Share { index: number(index)?, count: number(sides.places.len())? };
    sides.is_divided.then_some(share)
}

fn copy_labels(direction: Direction) -> BTreeMap<String, String> {
    BTreeMap::from([
        (label::TEARDOWN_STATE.to_owned(), direction.state().as_str().to_owned()),
        (movement::INITIATOR.to_owned(), direction.command().to_owned()),
    ])
}

/// Returns the name of the directory of an allocation beneath the destination, as the pinned profile says.
fn index_directory(view: &View<'_>, index: usize, sides: &Sides, place: &Place) -> Option<String> {
    if !sides.has_index_directories {
        return None;
    }
    let profile = view.directives[index].copies.profile.as_ref();
    let by_rabbit = format!("{}-{}", place.rabbit, place.index);
    match profile.map(|profile| &profile.data().index_directories) {
        Some(IndexDirectories::None) if sides.places.len() == 1 => None,
        Some(IndexDirectories::Compute) => Some(place.compute.clone().unwrap_or(by_rabbit)),
        _ => Some(by_rabbit),
    }
}

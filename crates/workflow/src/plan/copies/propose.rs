//! Proposal: pins the profile of a copy.

use api::{NnfDataMovementProfile, NnfDataMovementProfileBody, ResourceError};
use directive::Copy;

use super::mpi;
use crate::{
    change::Change,
    names::{add_directive_labels, directive_object_name, owned_metadata},
    objects::view::View,
    progress::{Progress, user_error},
};

/// Pins the profile of a copy.
pub(super) fn propose(view: &View<'_>, index: usize, copy: &Copy) -> Progress {
    if view.directives[index].copies.profile.is_some() {
        return Progress::default();
    }
    let template = profile(view, copy);
    let checked =
        template.and_then(|template| mpi::check(view, index, copy, template).map(|()| template));
    match checked {
        Ok(template) => Progress::default().with([Change::create(&pin(view, index, template))]),
        Err(error) => Progress::failed(error),
    }
}

/// Returns the profile that a copy names, or else the site's default. The profile existed when the directives were
/// checked.
fn profile<'a>(
    view: &'a View<'_>,
    copy: &Copy,
) -> Result<&'a NnfDataMovementProfile, ResourceError> {
    let Some(profiles) = &view.site.movement_profiles else {
        return Err(user_error(
            "the coordinator cannot carry out copies: the API does not let it list NnfDataMovementProfiles; ask the administrator to install the CRDs and rights for data movement",
        ));
    };
    let found = match &copy.profile {
        Some(name) => profiles.get(name),
        None => profiles.values().find(|profile| profile.data().default),
    };
    found.map(|profile| &**profile).ok_or_else(|| {
        user_error(
            "the NnfDataMovementProfile of the copy does not exist any more: name another by profile=NAME",
        )
    })
}

fn pin(view: &View<'_>, index: usize, template: &NnfDataMovementProfile) -> NnfDataMovementProfile {
    let metadata = owned_metadata(&view.workflow, &directive_object_name(&view.workflow, index));
    let mut data = template.data().clone();
    data.pinned = true;
    data.default = false;
    NnfDataMovementProfile {
        metadata: add_directive_labels(metadata, &view.workflow, index),
        spec: NnfDataMovementProfileBody { data: data.into() },
    }
}

//! Proposal: checks that a directive's containers can run here, and pins their profile.

use api::{NnfContainerProfile, NnfContainerProfileBody, NnfContainerProfileData, ResourceError};
use containers::{NameFault, names};
use directive::Container;

use super::{run, storages};
use crate::{
    change::Change,
    names::{add_directive_labels, directive_object_name, owned_metadata},
    objects::{site::Containers, view::View},
    progress::{Progress, user_error},
};

/// Checks the profile against this site and this workflow, and pins it.
pub(super) fn propose(view: &View<'_>, index: usize, container: &Container) -> Progress {
    let existing = &view.directives[index].containers;
    if existing.profile.is_some() {
        return Progress::default();
    }
    let name = &container.profile;
    let Some(template) = view.site.container_profiles.get(name) else {
        return Progress::failed(user_error(format!(
            "argument profile={name}: the profile does not exist any more: name another"
        )));
    };
    if let Err(error) = check_profile(view, container, template) {
        return Progress::failed(error);
    }
    let metadata = owned_metadata(&view.workflow, &directive_object_name(&view.workflow, index));
    let mut data = template.data().clone();
    data.pinned = true;
    let pinned = NnfContainerProfile {
        metadata: add_directive_labels(metadata, &view.workflow, index),
        spec: NnfContainerProfileBody { data: data.into() },
    };
    Progress::default().with([Change::create(&pinned)])
}

/// Checks that a profile's containers can run at this site, for this workflow.
fn check_profile(
    view: &View<'_>,
    container: &Container,
    template: &NnfContainerProfile,
) -> Result<(), ResourceError> {
    let containers = check_site(view, "command container", "remove the directive")?;
    storages::check(view, container, template.data())?;
    check_content(view, containers, template.data(), &container.profile)?;
    let has_podhelper = containers.namespace.is_none() || containers.podhelper_image.is_some();
    if template.data().mpi_spec.is_some() && !has_podhelper {
        return Err(run::no_podhelper_error(&container.profile));
    }
    check_names(view, template).map_err(|fault| user_error(fault.to_string()))
}

/// Checks that this site runs containers for this workflow. `what` needs them, unless the user does `instead`.
pub(super) fn check_site<'a>(
    view: &'a View<'_>,
    what: &str,
    instead: &str,
) -> Result<&'a Containers, ResourceError> {
    let containers = view.site.settings.containers.as_ref().ok_or_else(|| {
        user_error(format!(
            "{what}: this site runs no containers; {instead}, or ask the administrator to start the coordinator with --container-namespace"
        ))
    })?;
    match &containers.namespace {
        Some(namespace) if *namespace != view.namespace() => Err(user_error(format!(
            "{what}: containers run in the Kubernetes namespace {namespace} only, and this workflow is in {}",
            view.namespace()
        ))),
        _ => Ok(containers),
    }
}

/// Checks the containers of a profile.
pub(super) fn check_content(
    view: &View<'_>,
    containers: &Containers,
    profile: &NnfContainerProfileData,
    name: &str,
) -> Result<(), ResourceError> {
    let mut faults = containers::check::faults(profile, view.workflow.spec.user_id);
    if containers.namespace.is_none() {
        faults.extend(containers::check::faults_on_rabbits(profile));
    } else {
        faults.extend(containers::check::faults_on_kubernetes(profile, containers.packages));
    }
    match faults.first() {
        Some(fault) => Err(user_error(format!("argument profile={name}: {fault}"))),
        None => Ok(()),
    }
}

/// Checks that the names of the run's objects are valid on every rabbit that the job may get.
fn check_names(view: &View<'_>, template: &NnfContainerProfile) -> Result<(), NameFault> {
    let name = view.workflow.metadata.name.as_deref().unwrap_or_default();
    names::check_workflow(name)?;
    let rabbits = view.site.rabbits();
    if template.data().mpi_spec.is_some() {
        return names::check_mpi(name, rabbits.len());
    }
    rabbits.into_iter().try_for_each(|rabbit| names::check_rabbit(name, rabbit))
}

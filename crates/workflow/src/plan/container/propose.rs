//! Proposal: whether a directive's containers can run here.

use api::{NnfContainerProfile, NnfContainerProfileBody, ResourceError};
use containers::{NameFault, names};
use directive::Container;

use super::{run, storages};
use crate::{
    change::Change,
    names::{of_directive, owned, with_directive},
    progress::{Progress, user_error},
    view::View,
};

/// Checks the profile against this site and this workflow, and pins it.
pub(super) fn propose(view: &View<'_>, index: usize, container: &Container) -> Progress {
    let of = &view.directives[index].containers;
    if of.profile.is_some() {
        return Progress::default();
    }
    let name = &container.profile;
    let Some(template) = view.site.container_profiles.get(name) else {
        return Progress::failed(user_error(format!(
            "argument profile={name}: the profile is gone"
        )));
    };
    if let Err(error) = possible(view, container, template) {
        return Progress::failed(error);
    }
    let metadata = owned(&view.workflow, &of_directive(&view.workflow, index));
    let mut data = template.data().clone();
    data.pinned = true;
    let pinned = NnfContainerProfile {
        metadata: with_directive(metadata, &view.workflow, index),
        spec: NnfContainerProfileBody { data: data.into() },
    };
    Progress::default().with([Change::create(&pinned)])
}

/// Whether a profile's containers can run here, for this workflow.
fn possible(
    view: &View<'_>,
    container: &Container,
    template: &NnfContainerProfile,
) -> Result<(), ResourceError> {
    let Some(containers) = &view.site.settings.containers else {
        return Err(user_error(
            "command container: no containers run here; leave the directive out, or the administrator starts the coordinator with --container-namespace",
        ));
    };
    let elsewhere = containers.namespace.as_ref().filter(|one| **one != view.namespace());
    if let Some(namespace) = elsewhere {
        return Err(user_error(format!(
            "command container: containers run in the Kubernetes namespace {namespace} only, and this workflow is in {}",
            view.namespace()
        )));
    }
    storages::check(view, container, template.data())?;
    let mut faults = containers::check::faults(template.data(), view.workflow.spec.user_id);
    if containers.namespace.is_none() {
        faults.extend(containers::check::faults_on_rabbits(template.data()));
    } else {
        faults
            .extend(containers::check::faults_on_kubernetes(template.data(), containers.packages));
    }
    if let Some(fault) = faults.first() {
        return Err(user_error(format!("argument profile={}: {fault}", container.profile)));
    }
    let has_podhelper = containers.namespace.is_none() || containers.podhelper_image.is_some();
    if template.data().mpi_spec.is_some() && !has_podhelper {
        return Err(run::no_podhelper(&container.profile));
    }
    named(view, template).map_err(|fault| user_error(fault.to_string()))
}

/// Whether the run's objects can be named, on whatever rabbits it will be.
fn named(view: &View<'_>, template: &NnfContainerProfile) -> Result<(), NameFault> {
    let name = view.workflow.metadata.name.as_deref().unwrap_or_default();
    names::check_workflow(name)?;
    let rabbits = view.site.rabbits();
    if template.data().mpi_spec.is_some() {
        return names::check_mpi(name, rabbits.len());
    }
    rabbits.into_iter().try_for_each(|rabbit| names::check_rabbit(name, rabbit))
}

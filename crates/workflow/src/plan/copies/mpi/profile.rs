//! Turns a data movement profile into the containers of a copy.

use ::movement::mpi::command::{CommandLine, Values};
use api::{
    NnfContainerProfileData, NnfDataMovementProfileData, ResourceError, Workflow,
    nnf_container_profile::{NnfContainer, NnfMpiSpec, NnfPodSpec},
    nnf_data_movement::DataMovementPlace,
};
use containers::mpi::{HOSTFILE, PODHELPER};

use crate::{
    objects::view::View,
    progress::{internal_error, user_error},
};

/// Name of the container that copies, and of a worker's container.
const COPY: &str = "copy";
/// Name of the init container that makes the destination's directory.
const DIRECTORY: &str = "directory";

/// Checks image and command of a profile.
///
/// # Errors
/// The part of `data.image` or `data.command` that cannot be used, with the remedy.
pub(super) fn check(profile: &NnfDataMovementProfileData, name: &str) -> Result<(), ResourceError> {
    if profile.image.starts_with('-') {
        return Err(user_error(format!(
            "NnfDataMovementProfile {name}: data.image is {:?}: ask the administrator to write an image's name, which does not begin with -",
            profile.image
        )));
    }
    let checked = CommandLine::parse(&profile.command);
    checked.map(drop).map_err(|fault| user_error(format!("NnfDataMovementProfile {name}: {fault}")))
}

/// Returns the containers that copy between these paths.
pub(super) fn containers(
    workflow: &Workflow,
    profile: &NnfDataMovementProfileData,
    (source, destination): (&str, &str),
) -> NnfContainerProfileData {
    let container = |name: &str, command: Vec<String>| NnfContainer {
        name: name.to_owned(),
        image: profile.image.clone(),
        command: command.into_iter().map(escape).collect(),
        ..NnfContainer::default()
    };
    let values = Values {
        hostfile: HOSTFILE,
        user: workflow.spec.user_id,
        group: workflow.spec.group_id,
        source,
        destination,
    };
    // Proposal has checked the command, and the profile is pinned.
    let command = CommandLine::parse(&profile.command).map(|line| line.words(values));
    let directory = [PODHELPER, "make-directory", source, destination].map(str::to_owned);
    let directory = profile.create_dest_dir.then(|| container(DIRECTORY, directory.into()));
    let launcher = NnfPodSpec {
        containers: vec![container(COPY, command.unwrap_or_default())],
        init_containers: directory.into_iter().collect(),
        ..NnfPodSpec::default()
    };
    let worker =
        NnfPodSpec { containers: vec![container(COPY, Vec::new())], ..NnfPodSpec::default() };
    let mpi = NnfMpiSpec {
        launcher,
        worker,
        slots_per_worker: Some(slots(profile)),
        ..NnfMpiSpec::default()
    };
    NnfContainerProfileData {
        retry_limit: 0,
        num_ports: 0,
        mpi_spec: Some(mpi),
        ..NnfContainerProfileData::default()
    }
}

/// Returns the number of ranks on each rabbit.
fn slots(profile: &NnfDataMovementProfileData) -> i64 {
    let most = Some(profile.max_slots).filter(|most| *most > 0).unwrap_or(i64::MAX);
    profile.slots.min(most).max(1)
}

/// Escapes a word, because Kubernetes and the agents expand `$(NAME)` in commands.
fn escape(word: String) -> String {
    if word.contains('$') { word.replace('$', "$$") } else { word }
}

/// Returns the path of a source for `dcp`. The root of a file system gets a trailing `/`: its contents are copied, since
/// it has no name.
pub(super) fn source_path(side: &DataMovementPlace) -> String {
    let is_root = side.storage_reference.field_path.as_ref() == Some(&side.path);
    format!("{}{}", side.path, if is_root { "/" } else { "" })
}

/// Returns the command line of a copy's pinned profile, for its status.
pub(super) fn command_of<'a>(view: &'a View<'_>, index: usize) -> &'a str {
    let profile = view.directives[index].copies.profile.as_ref();
    profile.map_or("", |profile| &profile.data().command)
}

/// Returns the error for a missing pinned profile.
pub(super) fn deleted_error() -> ResourceError {
    internal_error(
        "the pinned NnfDataMovementProfile of this workflow was deleted: tear the workflow down",
    )
}

//! Checks a system storage: its fields, the objects that it names, and the storage that exists already.

use std::collections::BTreeMap;

use api::{
    NnfSystemStorage, NnfSystemStorageSpec, RabbitLabels, ResourceError, Servers,
    names::label,
    nnf_system_storage::{ComputesTarget, SystemStorageType},
};
use kube::ResourceExt;

use super::{choice::Choice, minor_error};
use crate::{
    names::LONGEST_LABEL,
    objects::{allocation::allocations, system_storage::SystemStorageView},
    progress::{internal_error, transient_error, user_error},
};

type Checked = Result<(), ResourceError>;

/// Checks the fields of the object.
///
/// # Errors
/// The field that is wrong, its value, and the remedy.
pub(super) fn request(view: &SystemStorageView<'_>) -> Checked {
    let (object, spec) = (&*view.object, &view.object.spec);
    let name = object.name_any();
    if name.len() > LONGEST_LABEL {
        return refuse(format!(
            "metadata.name has {} characters: write at most {LONGEST_LABEL}, because the objects on nodes have the name as a label",
            name.len()
        ));
    }
    references(spec)?;
    for (field, include, exclude) in [
        ("Rabbits", &spec.include_rabbits, &spec.exclude_rabbits),
        ("Computes", &spec.include_computes, &spec.exclude_computes),
    ] {
        if !include.is_empty() && !exclude.is_empty() {
            return refuse(format!(
                "spec.include{field} and spec.exclude{field} are both set: set only one of them"
            ));
        }
    }
    if let SystemStorageType::Other(kind) = &spec.kind {
        return refuse(format!("spec.type is {kind:?}: write raw, xfs or gfs2"));
    }
    if spec.capacity <= 0 {
        return refuse(format!("spec.capacity is {}: write at least 1 byte", spec.capacity));
    }
    pattern(spec)?;
    if spec.make_client_mounts && spec.client_mount_path.is_empty() {
        return refuse(
            "spec.clientMountPath is empty: name the path at which computes mount the storage, or set makeClientMounts to false",
        );
    }
    Ok(())
}

fn references(spec: &NnfSystemStorageSpec) -> Checked {
    if let Some(system) = spec.system_configuration.non_default() {
        let kind = system.kind.as_deref().unwrap_or_default();
        if kind != "SystemConfiguration" {
            return refuse(format!(
                "spec.systemConfiguration.kind is {kind:?}: write SystemConfiguration"
            ));
        }
    }
    let profile = &spec.storage_profile;
    let kind = profile.kind.as_deref().unwrap_or_default();
    if kind != "NnfStorageProfile" {
        return refuse(format!("spec.storageProfile.kind is {kind:?}: write NnfStorageProfile"));
    }
    for (field, value) in [("name", &profile.name), ("namespace", &profile.namespace)] {
        let value = value.as_deref().unwrap_or_default();
        if value.is_empty() || value.len() > LONGEST_LABEL {
            return refuse(format!(
                "spec.storageProfile.{field} is {value:?}: write 1 to {LONGEST_LABEL} characters"
            ));
        }
    }
    Ok(())
}

fn pattern(spec: &NnfSystemStorageSpec) -> Checked {
    match &spec.computes_target {
        ComputesTarget::Other(target) => {
            return refuse(format!(
                "spec.computesTarget is {target:?}: write all, even, odd or pattern"
            ));
        }
        ComputesTarget::Pattern if spec.computes_pattern.is_empty() => {
            return refuse(
                "spec.computesPattern is empty: list the indices of computes, from 0 to 15",
            );
        }
        ComputesTarget::All
        | ComputesTarget::Even
        | ComputesTarget::Odd
        | ComputesTarget::Pattern => {}
    }
    match spec.computes_pattern.iter().find(|index| !(0..=15).contains(*index)) {
        Some(index) => {
            refuse(format!("spec.computesPattern has {index}: list indices from 0 to 15"))
        }
        None => Ok(()),
    }
}

/// Checks the profile, and that no other storage has the names that this storage needs.
///
/// # Errors
/// The object that is missing or in the way, and the remedy.
pub(super) fn objects(view: &SystemStorageView<'_>) -> Checked {
    let spec = &view.object.spec;
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, name) =
        (part(&spec.storage_profile.namespace), part(&spec.storage_profile.name));
    let Some(profile) = &view.profile else {
        return Err(minor_error(format!(
            "NnfStorageProfile {namespace}/{name} does not exist: create it, or correct spec.storageProfile"
        )));
    };
    if !profile.data().pinned {
        return refuse(format!(
            "NnfStorageProfile {namespace}/{name} is not pinned, so it may change while storage is made with it: name a copy with data.pinned: true"
        ));
    }
    if let Some(foreign) = &view.foreign {
        return Err(foreign_error(foreign));
    }
    let left = view.leftovers.iter().flat_map(|group| group.blocks.keys()).next();
    match left {
        Some((rabbit, name)) => Err(internal_error(format!(
            "NnfNodeBlockStorage {rabbit}/{name} belongs to a Servers that was deleted: its data stays until this NnfSystemStorage is deleted"
        ))),
        None => Ok(()),
    }
}

/// Returns the error for a Servers of other storage that has the name of this storage's Servers.
pub(super) fn foreign_error(servers: &Servers) -> ResourceError {
    let (namespace, name) = (servers.namespace().unwrap_or_default(), servers.name_any());
    transient_error(format!(
        "Servers {namespace}/{name} belongs to other storage, or another controller made it, and stays as it is: give this NnfSystemStorage another name"
    ))
}

/// Returns true if another controller made the Servers for this system storage.
pub(super) fn is_of(servers: &Servers, object: &NnfSystemStorage) -> bool {
    servers.label(label::OWNER_UID) == object.metadata.uid.as_deref()
}

/// Checks that the storage on the rabbits still is what the object asks for.
///
/// # Errors
/// The field that was changed after the storage was made.
pub(super) fn existing(
    view: &SystemStorageView<'_>,
    servers: &Servers,
    choice: &Choice<'_>,
) -> Checked {
    let spec = &view.object.spec;
    if servers.metadata.deletion_timestamp.is_some() {
        return Err(internal_error(format!(
            "Servers {}, which holds the storage of this NnfSystemStorage, is being deleted: delete the NnfSystemStorage too",
            servers.name_any()
        )));
    }
    for allocation in allocations(servers) {
        let at = (allocation.rabbit.clone(), allocation.name.clone());
        let Some(file_system) = view.storage.file_systems.get(&at) else { continue };
        let changed = [
            ("type", file_system.spec.file_system_type.as_str() != spec.kind.as_str()),
            ("capacity", allocation.size != spec.capacity),
            ("shared or spec.computesTarget", file_system.spec.count != choice.count()),
        ];
        if let Some((field, _)) = changed.iter().find(|(_, is_changed)| *is_changed) {
            return refuse(format!(
                "spec.{field} was changed after {} made the storage: set it back, or create another NnfSystemStorage and delete this one",
                at.0
            ));
        }
    }
    Ok(())
}

/// Checks that no two computes mount the same XFS.
///
/// # Errors
/// When two computes would mount one XFS.
pub(super) fn exclusive(view: &SystemStorageView<'_>, choice: &Choice<'_>) -> Checked {
    let spec = &view.object.spec;
    if spec.kind != SystemStorageType::Xfs || !spec.make_client_mounts {
        return Ok(());
    }
    let mut first: BTreeMap<(&str, i64), &str> = BTreeMap::new();
    for (compute, client) in &choice.clients {
        if let Some(other) = first.insert((client.rabbit, client.index), compute) {
            return refuse(format!(
                "{other} and {compute} would both mount the XFS of {}, which destroys it: set spec.shared to false, or spec.type to gfs2",
                client.rabbit
            ));
        }
    }
    Ok(())
}

fn refuse(message: impl Into<String>) -> Checked {
    Err(user_error(message))
}

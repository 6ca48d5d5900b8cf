//! Turns a ClientMount into units of work, and finds all mistakes in the ClientMount before the agent changes anything.
//!
//! If one mount of an object is invalid, the agent makes none of the object's mounts: a job with half of its storage
//! is worse off than a job without storage. The agent also refuses to mount if it cannot parse the profile's command
//! lines for the later unmount.
//!
//! To unmount, the agent needs no profile: it unmounts every valid mount of an object even if the profile is gone or
//! has unreadable lines. Otherwise the deletion of a profile could block an unmount forever. There is one exception:
//! while the API forbids the agent to read the profile, the agent does not unmount, because the profile may exist and
//! have hooks for unmounting.

mod commands;
mod device;
mod error;
mod mount;
mod object_variables;
mod tree;
mod units;
mod unknown_path;
mod variables;

use api::{
    ClientMount, NnfStorageProfile, RabbitLabels, client_mount::ClientMountDeviceReference,
    names::label,
};
use storage::desired::{Mount, MountPoint, NamespaceId, ObjectUid};

use crate::site::Site;
pub use error::{MountError, MountProblem, ObjectError};
use mount::Context;
pub use units::{Goal, MountUnits};
pub use unknown_path::UnknownPath;

/// The reason why the agent cannot name the namespaces behind a `device.type: reference`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error(
        "only a rabbit can follow a reference: use type \"lvm\" with device.lvm.nvmeInfo on a compute"
    )]
    NotARabbit,
    #[error("could not find storage allocation: {0}")]
    NotReady(String),
}

/// Function that returns the NVMe namespaces behind a reference: on a rabbit, those of the NnfNodeBlockStorage
/// with the referenced name.
pub type References<'a> =
    &'a dyn Fn(&ClientMountDeviceReference) -> Result<Vec<NamespaceId>, ReferenceError>;

/// Returns an error for every reference. It is the [`References`] function of a compute, whose agent has no right to
/// read NnfNodeBlockStorages.
pub fn no_references(_: &ClientMountDeviceReference) -> Result<Vec<NamespaceId>, ReferenceError> {
    Err(ReferenceError::NotARabbit)
}

/// The pinned profile, or a text for the user that says why there is none.
pub type Profile<'a> = Result<&'a NnfStorageProfile, &'a str>;

/// Returns the units of work that `client_mount` asks for. Errors of single mounts are in [`MountUnits::mounts`].
pub fn desired(
    client_mount: &ClientMount,
    profile: Profile<'_>,
    references: References<'_>,
    site: &Site,
) -> Result<MountUnits, ObjectError> {
    units(client_mount, Goal::of(client_mount)?, profile, references, site)
}

/// Returns the units of work that bring `client_mount` to `goal`.
pub fn units(
    client_mount: &ClientMount,
    goal: Goal,
    profile: Profile<'_>,
    references: References<'_>,
    site: &Site,
) -> Result<MountUnits, ObjectError> {
    check_node(client_mount, site)?;
    let uid = object_uid(client_mount)?;
    if client_mount.spec.mounts.is_empty() {
        return Err(ObjectError::NoMounts);
    }
    let (profile, profile_lost) = match (goal, usable_profile(client_mount, profile)) {
        (_, Ok(profile)) => (Some(profile), None),
        (Goal::Mounted, Err(error)) => return Err(error),
        (Goal::Unmounted, Err(error)) => (None, Some(error)),
    };
    let context = Context { client_mount, uid, goal, profile, references, site };
    let mut unreadable = Vec::new();
    let mut mounts: Vec<_> = client_mount
        .spec
        .mounts
        .iter()
        .enumerate()
        .map(|(index, info)| context.mount(index, info, &mut unreadable))
        .collect();
    refuse_overlaps(&mut mounts);
    let (binds, trees) = tree::trees(&context, &mut mounts);
    Ok(MountUnits { goal, mounts, binds, trees, unreadable, profile_lost })
}

fn check_node(client_mount: &ClientMount, site: &Site) -> Result<(), ObjectError> {
    let namespace = client_mount.metadata.namespace.clone().unwrap_or_default();
    if namespace != site.node.as_str() {
        return Err(ObjectError::OtherNamespace { namespace, node: site.node.clone() });
    }
    if client_mount.spec.node != site.node.as_str() {
        return Err(ObjectError::OtherNode { node: client_mount.spec.node.clone(), namespace });
    }
    Ok(())
}

fn object_uid(client_mount: &ClientMount) -> Result<ObjectUid, ObjectError> {
    let uid = client_mount.metadata.uid.as_deref().unwrap_or_default();
    uid.parse().map_err(ObjectError::Uid)
}

/// Returns the profile that the ClientMount's labels name. Fails if a label is missing, if the profile does not exist,
/// or if it is not pinned.
fn usable_profile<'a>(
    client_mount: &ClientMount,
    profile: Profile<'a>,
) -> Result<&'a NnfStorageProfile, ObjectError> {
    for key in [label::PINNED_PROFILE_NAME, label::PINNED_PROFILE_NAMESPACE] {
        if client_mount.label(key).is_none() {
            return Err(ObjectError::MissingLabel(key));
        }
    }
    let profile = profile.map_err(|why| ObjectError::ProfileMissing(why.to_owned()))?;
    if profile.data().pinned {
        Ok(profile)
    } else {
        let metadata = &profile.metadata;
        Err(ObjectError::ProfileNotPinned {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        })
    }
}

/// Marks a mount as invalid if its path equals the path of an earlier mount of the same object, or if one of these two
/// paths lies within the other.
fn refuse_overlaps(mounts: &mut [Result<Mount, MountError>]) {
    let mut taken: Vec<(usize, MountPoint)> = Vec::new();
    for (index, entry) in mounts.iter_mut().enumerate() {
        let Ok(mount) = entry else { continue };
        let target = mount.target.clone();
        let other = taken
            .iter()
            .find(|(_, path)| overlap(path, &target))
            .map(|(other, path)| (*other, path.to_string()));
        match other {
            Some((other, other_path)) => {
                let problem = MountProblem::Overlap { other, other_path };
                *entry = Err(MountError { index, path: target.to_string(), problem });
            }
            None => taken.push((index, target)),
        }
    }
}

/// Returns whether two mount points are equal, or one lies within the other.
pub(crate) fn overlap(first: &MountPoint, second: &MountPoint) -> bool {
    let (first, second) = (first.path(), second.path());
    first.starts_with(&second) || second.starts_with(&first)
}

#[cfg(test)]
mod tests;

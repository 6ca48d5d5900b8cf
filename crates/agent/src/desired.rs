//! Turns a ClientMount into units of work, and finds everything that is wrong with it before anything is changed.
//!
//! If one mount of an object is invalid, the agent makes none of its mounts: a job that sees half of its storage is worse off
//! than one that sees none. Nor does it mount anything for which the profile has no readable lines to unmount it again. It
//! unmounts every mount that it understands, also when the profile is gone or has lines that cannot be read: unmounting must
//! never wait for a profile that was deleted first. It does wait for a profile that exists and that it may not read.

mod commands;
mod device;
mod error;
mod object_variables;
mod tree;
mod unknown_path;
mod variables;

use std::collections::BTreeMap;

use api::{
    ClientMount, NnfStorageProfile, RabbitLabels,
    client_mount::{ClientMountDeviceReference, ClientMountInfo, MountState},
    names::label,
};
use storage::{
    Desired,
    desired::{
        FileSystemKind, HookScope, Mount, MountPoint, MountSource, NamespaceId, ObjectUid, Owner,
    },
    template::{self, SiteCommandError},
};

pub use error::{MountError, MountProblem, ObjectError};
pub use unknown_path::UnknownPath;

use crate::site::Site;
use commands::Commands;
use device::Device;

/// The state that an object asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    Mounted,
    /// None of its mounts is mounted.
    Unmounted,
}

impl Goal {
    /// The goal of an object. One that is being deleted is to be unmounted, whatever `spec.desiredState` says.
    pub fn of(client_mount: &ClientMount) -> Result<Self, ObjectError> {
        if client_mount.metadata.deletion_timestamp.is_some() {
            return Ok(Self::Unmounted);
        }
        match &client_mount.spec.desired_state {
            MountState::Mounted => Ok(Self::Mounted),
            MountState::Unmounted => Ok(Self::Unmounted),
            MountState::Other(word) => Err(ObjectError::UnknownDesiredState(word.clone())),
        }
    }

    /// The goal as a value of `spec.desiredState`.
    pub fn state(self) -> MountState {
        match self {
            Self::Mounted => MountState::Mounted,
            Self::Unmounted => MountState::Unmounted,
        }
    }
}

/// Why the namespaces behind a `device.type: reference` cannot be named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error(
        "only a rabbit can follow a reference: use type \"lvm\" with device.lvm.nvmeInfo on a compute"
    )]
    NotARabbit,
    #[error("could not find storage allocation: {0}")]
    NotReady(String),
}

/// Looks up the namespaces behind a reference: on a rabbit, in the NnfNodeBlockStorage of the referenced name.
pub type References<'a> =
    &'a dyn Fn(&ClientMountDeviceReference) -> Result<Vec<NamespaceId>, ReferenceError>;

/// [`References`] of a compute, which has none.
pub fn no_references(_: &ClientMountDeviceReference) -> Result<Vec<NamespaceId>, ReferenceError> {
    Err(ReferenceError::NotARabbit)
}

/// The pinned profile, or a text for the user that says why there is none.
pub type Profile<'a> = Result<&'a NnfStorageProfile, &'a str>;

/// One ClientMount as units of work.
#[derive(Debug, Clone, PartialEq)]
pub struct MountUnits {
    pub goal: Goal,
    /// One entry per entry of `spec.mounts`, in its order.
    pub mounts: Vec<Result<Mount, MountError>>,
    /// Bind mounts beneath the index root, each with the index in `mounts` of the mount that it shows.
    pub binds: Vec<(usize, Mount)>,
    pub trees: Vec<storage::desired::IndexTree>,
    /// Lines of the profile that cannot be read, and that the agent leaves out when it unmounts.
    pub unreadable: Vec<MountError>,
    /// Why the agent unmounts without a profile.
    pub profile_lost: Option<ObjectError>,
}

impl MountUnits {
    /// Whether the object as a whole is refused: it asks for mounts and one of them is invalid.
    pub fn refused(&self) -> bool {
        self.goal == Goal::Mounted && self.mounts.iter().any(Result::is_err)
    }

    /// Whether the mount with this index in `spec.mounts` is to be unmounted from a path that is not known. While the agent may
    /// not read the profile, which will name the path, the answer is no.
    pub fn has_unknown_path(&self, index: usize) -> bool {
        let mount = self.mounts.get(index);
        let profile_may_name_it =
            matches!(self.profile_lost, Some(ObjectError::ProfileForbidden(_)));
        self.goal == Goal::Unmounted
            && !profile_may_name_it
            && mount.is_some_and(|mount| {
                matches!(mount, Err(MountError { problem: MountProblem::UnknownPath(_), .. }))
            })
    }

    /// Every mount point that belongs to the object, its binds included.
    pub fn mount_points(&self) -> impl Iterator<Item = &MountPoint> {
        let own = self.mounts.iter().flatten().map(|mount| &mount.target);
        own.chain(self.binds.iter().map(|(_, bind)| &bind.target))
    }

    pub fn unit(&self, mount: &Mount) -> Desired {
        match self.goal {
            Goal::Mounted => Desired::Mounted(mount.clone()),
            Goal::Unmounted => Desired::Unmounted(mount.clone()),
        }
    }
}

/// The units of work that `client_mount` asks for. Errors of single mounts are in [`MountUnits::mounts`].
pub fn desired(
    client_mount: &ClientMount,
    profile: Profile<'_>,
    references: References<'_>,
    site: &Site,
) -> Result<MountUnits, ObjectError> {
    units(client_mount, Goal::of(client_mount)?, profile, references, site)
}

/// The units of work that bring `client_mount` to `goal`.
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
    let (profile, profile_lost) = match (goal, usable(client_mount, profile)) {
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

/// The profile, if the labels name it, it exists, and it is pinned.
fn usable<'a>(
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

/// What all mounts of one object have in common.
struct Context<'a> {
    client_mount: &'a ClientMount,
    uid: ObjectUid,
    goal: Goal,
    /// `None` only when unmounting.
    profile: Option<&'a NnfStorageProfile>,
    references: References<'a>,
    site: &'a Site,
}

impl Context<'_> {
    fn mount(
        &self,
        index: usize,
        info: &ClientMountInfo,
        unreadable: &mut Vec<MountError>,
    ) -> Result<Mount, MountError> {
        let mount_error = |problem| MountError { index, path: info.mount_path.clone(), problem };
        let (mount, lines) = self.build(info).map_err(mount_error)?;
        unreadable.extend(lines.into_iter().map(MountProblem::Command).map(mount_error));
        Ok(mount)
    }

    fn build(
        &self,
        info: &ClientMountInfo,
    ) -> Result<(Mount, Vec<SiteCommandError>), MountProblem> {
        let kind: FileSystemKind = info
            .kind
            .as_str()
            .parse()
            .map_err(|_| MountProblem::UnknownType(info.kind.to_string()))?;
        let commands = self.profile.map_or_else(
            || Commands::without_profile(self.site.side),
            |profile| Commands::of(profile, kind, self.site.side),
        );
        let (commands, unreadable) = commands.readable(self.goal)?;
        let mut device = Device::read(self, info, kind, &commands)?;
        let mut variables = variables::table(self.client_mount, info, kind, &device, &commands);
        let target = self.target(info, &variables);
        if let Ok(target) = &target {
            variables.insert("$MOUNT_PATH".to_owned(), target.to_string());
        }
        if let MountSource::Volume { volume, .. } = &mut device.source {
            volume.layer = commands.layer(self.goal, self.site.volumes, &variables)?;
        }
        let target = match target {
            // Only the profile could name the path, and something may be mounted there.
            Err(MountProblem::UnknownVariable(path)) if self.profile.is_none() => {
                let literal = MountPoint::parse(&path, &self.site.roots).ok();
                let literal = literal.map(|path| (HookScope::mount(self.uid, &path), path));
                let unknown_path = UnknownPath { path, kind, source: device.source, literal };
                return Err(MountProblem::UnknownPath(Box::new(unknown_path)));
            }
            target => target?,
        };
        let scope = HookScope::mount(self.uid, &target);
        let site_lines = commands.expand(&scope, &variables)?;
        let mount = Mount {
            scope,
            target,
            kind,
            source: device.source,
            mount: site_lines.mount,
            unmount: site_lines.unmount,
            owner: owner(info)?,
            // Only rabbits write a file into the mount: computes may not read what goes into it.
            file: None,
            hooks: site_lines.hooks,
        };
        Ok((mount, unreadable))
    }

    fn target(
        &self,
        info: &ClientMountInfo,
        variables: &BTreeMap<String, String>,
    ) -> Result<MountPoint, MountProblem> {
        let mut known = variables.clone();
        if self.profile.is_none() {
            // The profile may have overridden these names, so without it they are guesses.
            known.retain(|name, _| name != "$VG_NAME" && name != "$LV_NAME");
        }
        let path = template::expand(&info.mount_path, &known);
        if path.contains('$') {
            return Err(MountProblem::UnknownVariable(path));
        }
        MountPoint::parse(&path, &self.site.roots).map_err(MountProblem::MountPath)
    }
}

fn owner(info: &ClientMountInfo) -> Result<Option<Owner>, MountProblem> {
    if !info.set_permissions {
        return Ok(None);
    }
    let id = |field, value: Option<i64>| {
        let value = value.unwrap_or(0);
        // chown(2) reads -1, the largest u32, as "leave it as it is".
        u32::try_from(value)
            .ok()
            .filter(|id| *id != u32::MAX)
            .ok_or(MountProblem::UserOrGroup { field, value })
    };
    Ok(Some(Owner { uid: id("userID", info.user_id)?, gid: id("groupID", info.group_id)? }))
}

/// Refuses the later of two mounts of one object at one path, or one within the other.
fn refuse_overlaps(mounts: &mut [Result<Mount, MountError>]) {
    let mut taken: Vec<(usize, MountPoint)> = Vec::new();
    for (index, slot) in mounts.iter_mut().enumerate() {
        let Ok(mount) = slot else { continue };
        let target = mount.target.clone();
        let other = taken
            .iter()
            .find(|(_, path)| overlap(path, &target))
            .map(|(other, path)| (*other, path.to_string()));
        match other {
            Some((other, other_path)) => {
                let problem = MountProblem::Overlap { other, other_path };
                *slot = Err(MountError { index, path: target.to_string(), problem });
            }
            None => taken.push((index, target)),
        }
    }
}

/// Whether one of two mount points is, or lies within, the other.
pub(crate) fn overlap(one: &MountPoint, other: &MountPoint) -> bool {
    let (one, other) = (one.path(), other.path());
    one.starts_with(&other) || other.starts_with(&one)
}

#[cfg(test)]
mod tests;

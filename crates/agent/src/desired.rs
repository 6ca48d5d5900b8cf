//! ClientMount to units of work. Everything that is wrong with an object is found here, before anything is touched.
//!
//! If any mount of an object that is to be mounted is invalid, none of its mounts is made: a job that sees half of its
//! storage is worse off than one that sees none; and none is made that the profile has no readable way back for. Unmounting
//! proceeds for every mount that can be understood, also when the profile is gone or has lines that cannot be read: a
//! teardown must never wait for an object that went first. It waits for one that may be there and cannot be read.

mod commands;
mod device;
mod error;
mod tree;
mod untold;
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
pub use untold::Untold;

use crate::site::Site;
use commands::Commands;
use device::Device;

/// Where an object is to be brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Everything it names is mounted.
    Mounted,
    /// Nothing of it is.
    Unmounted,
}

impl Goal {
    /// What the object asks for: a deleted one wants to be unmounted, whatever `spec.desiredState` says.
    ///
    /// # Errors
    /// When `spec.desiredState` is a word that is not known.
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

    /// The same in the object's words.
    #[must_use]
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
    /// This node holds no allocations.
    #[error(
        "only a rabbit can follow a reference: use type \"lvm\" with device.lvm.nvmeInfo on a compute"
    )]
    NotARabbit,
    /// They are not there yet; the text says what is missing.
    #[error("could not find storage allocation: {0}")]
    NotReady(String),
}

/// Looks up the namespaces behind a reference: on a rabbit, in the NnfNodeBlockStorage of the referenced name.
pub type References<'a> =
    &'a dyn Fn(&ClientMountDeviceReference) -> Result<Vec<NamespaceId>, ReferenceError>;

/// [`References`] of a compute, which has none.
///
/// # Errors
/// Always.
pub fn no_references(_: &ClientMountDeviceReference) -> Result<Vec<NamespaceId>, ReferenceError> {
    Err(ReferenceError::NotARabbit)
}

/// The pinned profile, or in words for the user why it could not be had.
pub type Profile<'a> = Result<&'a NnfStorageProfile, &'a str>;

/// One ClientMount as units of work.
#[derive(Debug, Clone, PartialEq)]
pub struct MountUnits {
    /// Where they lead.
    pub goal: Goal,
    /// One per entry of `spec.mounts`, in its order.
    pub mounts: Vec<Result<Mount, MountError>>,
    /// Bind mounts beneath the index root, each with the place in `mounts` of what it shows.
    pub binds: Vec<(usize, Mount)>,
    /// Symlinks in index trees.
    pub trees: Vec<storage::desired::IndexTree>,
    /// Lines of the profile that cannot be read and that unmounting does without.
    pub unreadable: Vec<MountError>,
    /// Why unmounting knows no profile at all.
    pub profile_lost: Option<ObjectError>,
}

impl MountUnits {
    /// Whether the object as a whole is refused: it asks for mounts and one of them is invalid.
    #[must_use]
    pub fn refused(&self) -> bool {
        self.goal == Goal::Mounted && self.mounts.iter().any(Result::is_err)
    }

    /// Whether the mount of this place in `spec.mounts` is to go from a path that nobody can tell (any more: a profile that
    /// may not be read now will tell).
    #[must_use]
    pub fn is_untold(&self, place: usize) -> bool {
        let mount = self.mounts.get(place);
        let will_be_told = matches!(self.profile_lost, Some(ObjectError::ProfileUnread(_)));
        self.goal == Goal::Unmounted
            && !will_be_told
            && mount.is_some_and(|mount| {
                matches!(mount, Err(MountError { problem: MountProblem::Untold(_), .. }))
            })
    }

    /// Every mount point that belongs to the object, its binds included.
    pub fn mount_points(&self) -> impl Iterator<Item = &MountPoint> {
        let own = self.mounts.iter().flatten().map(|mount| &mount.target);
        own.chain(self.binds.iter().map(|(_, bind)| &bind.target))
    }

    /// What should be of one mount.
    #[must_use]
    pub fn unit(&self, mount: &Mount) -> Desired {
        match self.goal {
            Goal::Mounted => Desired::Mounted(mount.clone()),
            Goal::Unmounted => Desired::Unmounted(mount.clone()),
        }
    }
}

/// What `client_mount` asks of the node.
///
/// # Errors
/// When the object as a whole cannot be worked on. Errors of single mounts are in [`MountUnits::mounts`].
pub fn desired(
    client_mount: &ClientMount,
    profile: Profile<'_>,
    references: References<'_>,
    site: &Site,
) -> Result<MountUnits, ObjectError> {
    units(client_mount, Goal::of(client_mount)?, profile, references, site)
}

/// What bringing `client_mount` to `goal` asks of the node.
///
/// # Errors
/// As [`desired`].
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

/// The profile when it is one that may be used: named by the labels, there, and pinned.
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

/// What every mount of one object shares.
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
        let told = |problem| MountError { index, path: info.mount_path.clone(), problem };
        let (mount, lines) = self.build(info).map_err(told)?;
        unreadable.extend(lines.into_iter().map(MountProblem::Command).map(told));
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
            // Which path it was is lost with the profile, and something may be mounted there.
            Err(MountProblem::UnknownVariable(path)) if self.profile.is_none() => {
                let spelled = MountPoint::parse(&path, &self.site.roots).ok();
                let spelled = spelled.map(|it| (HookScope::mount(self.uid, &it), it));
                let untold = Untold { path, kind, source: device.source, spelled };
                return Err(MountProblem::Untold(Box::new(untold)));
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
            // A compute may not read what goes into it.
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
            // Without the profile they are guesses.
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

/// Of two mounts of one object at one path, or one within the other, the later is refused.
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

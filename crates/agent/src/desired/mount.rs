//! One entry of `spec.mounts` as a mount.

use std::collections::BTreeMap;

use api::{ClientMount, NnfStorageProfile, client_mount::ClientMountInfo};
use storage::{
    desired::{FileSystemKind, HookScope, Mount, MountPoint, MountSource, ObjectUid, Owner},
    template::{self, SiteCommandError},
};

use super::{
    Goal, MountError, MountProblem, References, UnknownPath, commands::Commands, device::Device,
    variables,
};
use crate::site::Site;

/// The properties that all mounts of one object share.
pub(super) struct Context<'a> {
    pub(super) client_mount: &'a ClientMount,
    pub(super) uid: ObjectUid,
    pub(super) goal: Goal,
    /// `None` only if the goal is to unmount.
    pub(super) profile: Option<&'a NnfStorageProfile>,
    pub(super) references: References<'a>,
    pub(super) site: &'a Site,
}

impl Context<'_> {
    /// Builds one mount of the object; adds the errors of the profile's unreadable lines to `unreadable`.
    pub(super) fn mount(
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
            |profile| Commands::from_profile(profile, kind, self.site.side),
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
            // The missing profile may have defined the variables of the path, so the mount may still exist at a path
            // that the agent does not know.
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
            // Only a rabbit's agent writes a file into a mount: the file contains the Servers object, which the agents
            // of computes have no permission to read.
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
            // The missing profile may have overridden these two names, so the default names may be wrong.
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
        // The largest u32 is excluded: to chown(2) it is -1, which leaves the id unchanged.
        u32::try_from(value)
            .ok()
            .filter(|id| *id != u32::MAX)
            .ok_or(MountProblem::UserOrGroup { field, value })
    };
    Ok(Some(Owner { uid: id("userID", info.user_id)?, gid: id("groupID", info.group_id)? }))
}

//! Turns a `NnfNodeStorageSpec` into file systems, or into a user error.

mod error;
#[cfg(test)]
mod tests;

use agent::volumes::{Volumes, rabbit_lines};
use api::{
    NnfNodeBlockStorage, NnfNodeStorage, NnfStorageProfile, RabbitLabels, names::label,
    nnf_node_storage::FileSystemType, nnf_storage_profile::StorageProfile,
};
pub use error::NodeStorageError;
use storage::{
    desired::{
        AllocationId, AllowedRoots, FileSystem, FileSystemId, FileSystemKind, Hook, HookPoint,
        HookScope, MountPoint, MountPointError, NamespaceId, ObjectUid, Volume, VolumeLayer,
    },
    template::SiteCommandError,
};

use super::lines::{Lines, Variables, owner, variables};

/// Maximum number of file systems of an object; a rabbit's drives have fewer namespaces.
const MOST_FILE_SYSTEMS: u32 = 4096;

/// Directory of the mounts that set-up hooks see.
#[derive(Debug, Clone)]
pub struct TemporaryRoot {
    /// The directory, e.g. `/mnt/temp`.
    pub path: String,
    pub roots: AllowedRoots,
}

impl TemporaryRoot {
    /// Returns the temporary mount point of the object's file system `index`; the profile may set another mount point.
    pub fn mount_point(&self, name: &str, index: u32) -> Result<MountPoint, MountPointError> {
        MountPoint::parse(&format!("{}/{name}-{index}", self.path), &self.roots)
    }
}

/// Returns the number of file systems that the object asks for.
pub fn count(object: &NnfNodeStorage) -> Result<u32, NodeStorageError> {
    let count = u32::try_from(object.spec.count).ok().filter(|count| *count <= MOST_FILE_SYSTEMS);
    count.ok_or(NodeStorageError::Count(object.spec.count))
}

/// Returns the file systems that the object asks for, on the namespaces that `block` reports.
pub fn desired(
    object: &NnfNodeStorage,
    profile: &NnfStorageProfile,
    block: &NnfNodeBlockStorage,
    temporary: &TemporaryRoot,
    volumes: Volumes,
) -> Result<Vec<FileSystem>, NodeStorageError> {
    let count = count(object)?;
    let kind = kind(object)?;
    let shared = object.spec.shared_allocation;
    let (field, lines) = match kind {
        FileSystemKind::Raw => ("rawStorage", &profile.data().raw_storage),
        FileSystemKind::Gfs2 => ("gfs2Storage", &profile.data().gfs2_storage),
        FileSystemKind::Xfs | FileSystemKind::Lustre => ("xfsStorage", &profile.data().xfs_storage),
    };
    let in_profile = lines.block_device_commands.shared_vg;
    if in_profile != shared {
        let field = format!("data.{field}.blockDeviceCommands.sharedVg");
        return Err(NodeStorageError::Sharing { spec: shared, field, profile: in_profile });
    }
    let builder = Builder { object, profile, field, lines, kind, count, volumes };
    let units: Vec<_> = (0..count)
        .map(|index| builder.file_system(index, block, temporary))
        .collect::<Result<_, _>>()?;
    let on_devices = units.iter().any(|unit| unit.volume.layer == VolumeLayer::Plain);
    if shared && count > 1 && on_devices {
        return Err(NodeStorageError::SharedCount(object.spec.count));
    }
    Ok(units)
}

/// Checks that the block storage has the devices for the object's file systems.
pub fn check_block(
    object: &NnfNodeStorage,
    block: &NnfNodeBlockStorage,
) -> Result<(), NodeStorageError> {
    let count = count(object)?;
    let needed = if object.spec.shared_allocation { count.min(1) } else { count } as usize;
    let name = || name_of(&block.metadata.name);
    let allocations_made = block.status.as_ref().map_or(&[][..], |status| &status.allocations);
    if allocations_made.len() < needed {
        return Err(NodeStorageError::Allocations {
            count,
            block: name(),
            allocations: allocations_made.len(),
        });
    }
    let rabbit = name_of(&object.metadata.namespace);
    let lacking = allocations_made.iter().take(needed).position(|allocation| {
        // Fewer paths than devices mean that drives are missing. This is no error here: the observation of the volume
        // shows whether the volume works without these drives, and other allocations are not affected.
        allocation.devices.is_empty() || !allocation.accesses.contains_key(&rabbit)
    });
    lacking.map_or(Ok(()), |index| Err(NodeStorageError::NoAccess { block: name(), index, rabbit }))
}

fn kind(object: &NnfNodeStorage) -> Result<FileSystemKind, NodeStorageError> {
    match &object.spec.file_system_type {
        FileSystemType::Raw => Ok(FileSystemKind::Raw),
        FileSystemType::Xfs => Ok(FileSystemKind::Xfs),
        FileSystemType::Gfs2 => Ok(FileSystemKind::Gfs2),
        other => Err(NodeStorageError::Type(other.as_str().to_owned())),
    }
}

fn name_of(name: &Option<String>) -> String {
    name.clone().unwrap_or_default()
}

/// The input that all file systems of an object have in common.
struct Builder<'a> {
    object: &'a NnfNodeStorage,
    profile: &'a NnfStorageProfile,
    field: &'static str,
    lines: &'a StorageProfile,
    kind: FileSystemKind,
    count: u32,
    volumes: Volumes,
}

impl Builder<'_> {
    fn file_system(
        &self,
        index: u32,
        block: &NnfNodeBlockStorage,
        temporary: &TemporaryRoot,
    ) -> Result<FileSystem, NodeStorageError> {
        let owner = owner(self.object)?;
        let name = name_of(&self.object.metadata.name);
        let rabbit = name_of(&self.object.metadata.namespace);
        let id = FileSystemId::derive(owner, &rabbit, &name, index);
        let mut volume = self.volume(owner, index, block)?;
        let default = temporary.mount_point(&name, index).map_err(NodeStorageError::Temporary)?;
        let variables = self.variables(index, &volume, &default)?;
        volume.layer = self.layer(&variables)?;
        let path = storage::template::expand("$TEMP_DIR", &variables);
        let temporary =
            MountPoint::parse(&path, &temporary.roots).map_err(NodeStorageError::Temporary)?;
        let scope = HookScope::file_system(&id);
        let rabbit = &self.lines.file_system_commands.rabbit_commands;
        let raw = self.kind == FileSystemKind::Raw;
        let root = format!("data.{}", self.field);
        let lines = Lines { profile: self.profile, root: &root, variables: &variables };
        let hooks = self.hooks(&scope, &lines)?;
        let mkfs = if raw { "" } else { &rabbit.mkfs };
        Ok(FileSystem {
            id,
            kind: self.kind,
            mkfs: lines.line("fileSystemCommands.rabbitCommands.mkfs", mkfs)?,
            hooks,
            mount: lines.line("fileSystemCommands.rabbitCommands.mount", &rabbit.mount)?,
            volume,
            temporary,
        })
    }

    fn hooks(&self, scope: &HookScope, lines: &Lines<'_>) -> Result<Vec<Hook>, NodeStorageError> {
        let setup = &self.lines.user_commands;
        let raw = self.kind == FileSystemKind::Raw;
        let mut hooks = Vec::new();
        for (phase, command_lines) in [
            (HookPoint::PostActivate, &setup.post_activate),
            (HookPoint::PostSetup, &setup.post_setup),
            (HookPoint::PreTeardown, &setup.pre_teardown),
            (HookPoint::PreDeactivate, &setup.pre_deactivate),
            (HookPoint::PostTeardown, &setup.post_teardown),
        ] {
            // A raw device has no mount that a hook after the set-up or before the tear-down could use.
            if !raw || !matches!(phase, HookPoint::PostSetup | HookPoint::PreTeardown) {
                let name = format!("userCommands.{}", phase.as_str());
                hooks.extend(lines.hooks(scope, phase, &name, command_lines)?);
            }
        }
        Ok(hooks)
    }

    fn volume(
        &self,
        owner: ObjectUid,
        index: u32,
        block: &NnfNodeBlockStorage,
    ) -> Result<Volume, NodeStorageError> {
        let directive =
            self.object.directive_index().ok_or(NodeStorageError::Label(label::DIRECTIVE_INDEX))?;
        let shared = self.object.spec.shared_allocation;
        let (group, logical) = if shared {
            (format!("{owner}_{directive}"), format!("lv-{index}"))
        } else {
            (format!("{owner}_{directive}_{index}"), "lv".to_owned())
        };
        let renamed = |variable: &str, name: String| {
            self.lines.variable_override.get(variable).cloned().unwrap_or(name)
        };
        let place = if shared { 0 } else { index };
        Ok(Volume {
            group: renamed("$VG_NAME", group),
            logical: renamed("$LV_NAME", logical),
            namespaces: namespaces(block, place as usize)?,
            made_for: Some(allocation(block, place)?),
            layer: VolumeLayer::Plain,
        })
    }

    fn layer(&self, variables: &Variables) -> Result<VolumeLayer, NodeStorageError> {
        let field = format!("data.{}.blockDeviceCommands.rabbitCommands", self.field);
        let commands = &self.lines.block_device_commands.rabbit_commands;
        let lines =
            rabbit_lines(&field, commands, variables).map_err(|error| self.invalid_line(error))?;
        Ok(self.volumes.layer(lines))
    }

    fn invalid_line(&self, source: SiteCommandError) -> NodeStorageError {
        NodeStorageError::in_profile(self.profile, source)
    }

    /// Returns `fs-<index>-<hexadecimal digits of the first five characters of the object's uid>`, the name that
    /// nnf-node-manager used. It has at most 30 bytes, as GFS2's lock table requires.
    fn lock_space(&self, index: u32) -> String {
        let uid = self.object.metadata.uid.as_deref().unwrap_or_default();
        let digits: String = uid.bytes().take(5).map(|byte| format!("{byte:02x}")).collect();
        format!("fs-{index:02}-{digits}")
    }

    /// Returns the variables of a file system. Values of the object replace the agent's; the
    /// profile's overrides replace both.
    fn variables(
        &self,
        index: u32,
        volume: &Volume,
        temporary: &MountPoint,
    ) -> Result<Variables, NodeStorageError> {
        let spec = &self.object.spec;
        let percent = if spec.shared_allocation { 100 / self.count.max(1) } else { 100 };
        let target = if self.kind == FileSystemKind::Raw { "file" } else { "directory" };
        let known = [
            ("$VG_NAME", volume.group.clone()),
            ("$LV_NAME", volume.logical.clone()),
            ("$LV_INDEX", index.to_string()),
            ("$LV_SIZE", format!("{}K", spec.capacity / 1024)),
            ("$PERCENT_VG", format!("{percent}%VG")),
            ("$CLUSTER_NAME", name_of(&self.object.metadata.namespace)),
            ("$LOCK_SPACE", self.lock_space(index)),
            ("$PROTOCOL", "lock_dlm".to_owned()),
            ("$FSTYPE", self.kind.as_str().to_owned()),
            ("$MOUNT_TARGET", target.to_owned()),
            ("$TEMP_DIR", temporary.to_string()),
            ("$MOUNT_PATH", "$TEMP_DIR".to_owned()),
        ];
        let mut variables = variables(self.object, known, index, self.count)?;
        variables.extend(self.lines.variable_override.clone());
        Ok(variables)
    }
}

/// Returns the namespaces of allocation `index` as the block storage reports them; empty if the
/// allocation was not made.
pub fn namespaces(
    block: &NnfNodeBlockStorage,
    index: usize,
) -> Result<Vec<NamespaceId>, NodeStorageError> {
    let Some(allocation) = block.status.as_ref().and_then(|status| status.allocations.get(index))
    else {
        return Ok(Vec::new());
    };
    let invalid =
        |source| NodeStorageError::Device { index, block: name_of(&block.metadata.name), source };
    let ids = allocation
        .devices
        .iter()
        .map(|device| NamespaceId::parse(&device.nqn, &device.namespace_id));
    ids.collect::<Result<_, _>>().map_err(invalid)
}

/// Returns the id of allocation `index` of the block storage.
pub fn allocation(
    block: &NnfNodeBlockStorage,
    index: u32,
) -> Result<AllocationId, NodeStorageError> {
    let uid = block.metadata.uid.as_deref().unwrap_or_default();
    let owner = uid.parse().map_err(|source| NodeStorageError::BlockUid {
        block: name_of(&block.metadata.name),
        source,
    })?;
    Ok(AllocationId { owner, index })
}

//! Selects the command lines of a profile that apply to one mount. In this module, "line" means such a command line.

mod readable;

use std::collections::BTreeMap;

use api::{
    NnfStorageProfile,
    nnf_storage_profile::{LustreProfile, LvChange, StorageProfile, VgChange},
};
use storage::{
    desired::{FileSystemKind, Hook, HookId, HookPoint, HookScope, LvmLines, VolumeLayer},
    template::SiteCommand,
};

use super::{Goal, MountProblem};
use crate::{
    site::Side,
    volumes::{self, Volumes},
};

/// The agent's own lines, which it uses where the profile has no usable line: to unmount, to deactivate a volume, and
/// to stop the lock space of the volume group.
const UNMOUNT: &str = "$MOUNT_PATH";
const DEACTIVATE: &str = "--activate n $VG_NAME/$LV_NAME";
const LOCK_STOP: &str = "--lock-stop $VG_NAME";

/// One line of a profile, with the path of its field.
#[derive(Debug, Clone)]
struct Line {
    field: String,
    text: String,
}

/// The lines of one hook, such as `preMount`, with the path of their field.
#[derive(Debug, Clone)]
struct HookLines {
    field: String,
    phase: HookPoint,
    lines: Vec<String>,
}

/// The lines of one mount, before variables are filled in.
#[derive(Debug, Clone)]
pub(super) struct Commands {
    /// Whether all allocations of the storage share one volume group.
    pub(super) shared_vg: bool,
    /// Variables that replace the agent's own variables; the keys begin with `$`.
    pub(super) overrides: BTreeMap<String, String>,
    mount: Line,
    unmount: Line,
    hooks: Vec<HookLines>,
    volume: VolumeLines,
}

/// The lines that activate and deactivate a volume, with the path of their field.
#[derive(Debug, Clone, Default)]
struct VolumeLines {
    field: String,
    group: VgChange,
    volume: LvChange,
    /// True if the node leaves the lock space of the volume group after it has deactivated its last
    /// volume of the group.
    leaves_lock_space: bool,
    /// True if the names of volume group and volume are not known: the agent then reads the names from
    /// the volume's NVMe namespaces.
    finds_names: bool,
}

/// The lines of one mount, with variables filled in.
#[derive(Debug, Default)]
pub(super) struct SiteLines {
    pub(super) mount: Option<SiteCommand>,
    pub(super) unmount: Option<SiteCommand>,
    pub(super) hooks: Vec<Hook>,
}

impl Commands {
    /// Returns the lines for unmounting without a profile: a plain umount, the deactivation of the volume, and
    /// no hooks. Only the profile names the volume group and says whether it is shared, so the agent reads both
    /// from the NVMe namespaces.
    pub(super) fn without_profile(side: Side) -> Self {
        Self {
            shared_vg: true,
            overrides: BTreeMap::new(),
            mount: Line { field: String::new(), text: String::new() },
            unmount: Line { field: "unmount".to_owned(), text: UNMOUNT.to_owned() },
            hooks: Vec::new(),
            volume: VolumeLines {
                field: "blockDeviceCommands".to_owned(),
                group: VgChange { lock_stop: LOCK_STOP.to_owned(), ..VgChange::default() },
                volume: LvChange { deactivate: DEACTIVATE.to_owned(), ..LvChange::default() },
                leaves_lock_space: side == Side::Compute,
                finds_names: true,
            },
        }
    }

    pub(super) fn from_profile(
        profile: &NnfStorageProfile,
        kind: FileSystemKind,
        side: Side,
    ) -> Self {
        let data = profile.data();
        let metadata = &profile.metadata;
        let name = format!(
            "NnfStorageProfile {}/{} data",
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default()
        );
        let (field, storage) = match kind {
            FileSystemKind::Raw => ("rawStorage", &data.raw_storage),
            FileSystemKind::Xfs => ("xfsStorage", &data.xfs_storage),
            FileSystemKind::Gfs2 => ("gfs2Storage", &data.gfs2_storage),
            FileSystemKind::Lustre => {
                return lustre(&format!("{name}.lustreStorage"), &data.lustre_storage, side);
            }
        };
        on_volume(&format!("{name}.{field}"), storage, side)
    }

    /// Returns the volume layer, which lies between the NVMe namespaces and the file system.
    pub(super) fn layer(
        &self,
        goal: Goal,
        volumes: Volumes,
        variables: &BTreeMap<String, String>,
    ) -> Result<VolumeLayer, MountProblem> {
        let VolumeLines { field, group, volume, leaves_lock_space, finds_names } = &self.volume;
        // Leaves out the lines that this goal does not need: a mount deactivates nothing, and an unmount activates
        // nothing.
        let (group, volume) = match goal {
            Goal::Mounted => (
                VgChange { lock_stop: String::new(), ..group.clone() },
                LvChange { deactivate: String::new(), ..volume.clone() },
            ),
            Goal::Unmounted => (
                VgChange { lock_start: String::new(), ..group.clone() },
                LvChange { activate: String::new(), ..volume.clone() },
            ),
        };
        let (leaves_lock_space, finds_names) = (*leaves_lock_space, *finds_names);
        let mut variables = variables.clone();
        if finds_names {
            variables.retain(|name, _| name != "$VG_NAME" && name != "$LV_NAME");
        }
        let lines = volumes::activation(field, (&group, &volume), &variables);
        let lines = lines.map_err(MountProblem::Command)?;
        Ok(volumes.layer(LvmLines { leaves_lock_space, finds_names, ..lines }))
    }

    /// Fills the variables into all lines.
    pub(super) fn expand(
        &self,
        scope: &HookScope,
        variables: &BTreeMap<String, String>,
    ) -> Result<SiteLines, MountProblem> {
        let command = |field: &str, text: &str| {
            SiteCommand::new(field, text, variables.clone()).map_err(MountProblem::Command)
        };
        let mut lines = SiteLines {
            mount: command(&self.mount.field, &self.mount.text)?,
            unmount: command(&self.unmount.field, &self.unmount.text)?,
            hooks: Vec::new(),
        };
        for hook in &self.hooks {
            for (index, text) in hook.lines.iter().enumerate() {
                if let Some(command) = command(&format!("{}[{index}]", hook.field), text)? {
                    let id = HookId { scope: scope.clone(), phase: hook.phase, index };
                    lines.hooks.push(Hook { id, command });
                }
            }
        }
        Ok(lines)
    }
}

fn on_volume(field: &str, profile: &StorageProfile, side: Side) -> Commands {
    let (files, blocks) = (&profile.file_system_commands, &profile.block_device_commands);
    let (commands, lines, group, volume, file_hooks, block_hooks) = match side {
        Side::Compute => {
            let (files, blocks) = (&files.compute_commands, &blocks.compute_commands);
            let lines = [&files.mount, &files.unmount];
            let hooks = (&files.user_commands, &blocks.user_commands);
            ("computeCommands", lines, &blocks.vg_change, &blocks.lv_change, hooks.0, hooks.1)
        }
        Side::Rabbit => {
            let (files, blocks) = (&files.rabbit_commands, &blocks.rabbit_commands);
            let lines = [&files.mount, &files.unmount];
            let hooks = (&files.user_commands, &blocks.user_commands);
            ("rabbitCommands", lines, &blocks.vg_change, &blocks.lv_change, hooks.0, hooks.1)
        }
    };
    let file_field = format!("{field}.fileSystemCommands.{commands}");
    let block_field = format!("{field}.blockDeviceCommands.{commands}");
    let line = |name: &str, text: &String| Line {
        field: format!("{file_field}.{name}"),
        text: text.clone(),
    };
    let hooks = [
        (&block_field, HookPoint::PreActivate, &block_hooks.pre_activate),
        (&block_field, HookPoint::PostActivate, &block_hooks.post_activate),
        (&block_field, HookPoint::PreDeactivate, &block_hooks.pre_deactivate),
        (&block_field, HookPoint::PostDeactivate, &block_hooks.post_deactivate),
        (&file_field, HookPoint::PreMount, &file_hooks.pre_mount),
        (&file_field, HookPoint::PostMount, &file_hooks.post_mount),
        (&file_field, HookPoint::PreUnmount, &file_hooks.pre_unmount),
        (&file_field, HookPoint::PostUnmount, &file_hooks.post_unmount),
    ];
    let hooks = hooks.map(|(beneath, phase, lines)| HookLines {
        field: format!("{beneath}.userCommands.{}", phase.as_str()),
        phase,
        lines: lines.clone(),
    });
    let [mount, unmount] = lines;
    Commands {
        shared_vg: profile.block_device_commands.shared_vg,
        overrides: profile.variable_override.clone(),
        mount: line("mount", mount),
        unmount: line("unmount", unmount),
        hooks: hooks.to_vec(),
        volume: VolumeLines {
            field: block_field,
            group: VgChange::clone(group),
            volume: LvChange::clone(volume),
            leaves_lock_space: side == Side::Compute,
            finds_names: false,
        },
    }
}

fn lustre(field: &str, profile: &LustreProfile, side: Side) -> Commands {
    let lines = &profile.client_options.command_lines;
    let field = format!("{field}.clientOptions.commandlines");
    let (suffix, prefix, mount, unmount) = match side {
        Side::Compute => ("Compute", "compute", &lines.mount_compute, &lines.unmount_compute),
        Side::Rabbit => ("Rabbit", "rabbit", &lines.mount_rabbit, &lines.unmount_rabbit),
    };
    let hooks = match side {
        Side::Compute => [
            ("PreMount", HookPoint::PreMount, &lines.compute_pre_mount),
            ("PostMount", HookPoint::PostMount, &lines.compute_post_mount),
            ("PreUnmount", HookPoint::PreUnmount, &lines.compute_pre_unmount),
            ("PostUnmount", HookPoint::PostUnmount, &lines.compute_post_unmount),
        ],
        Side::Rabbit => [
            ("PreMount", HookPoint::PreMount, &lines.rabbit_pre_mount),
            ("PostMount", HookPoint::PostMount, &lines.rabbit_post_mount),
            ("PreUnmount", HookPoint::PreUnmount, &lines.rabbit_pre_unmount),
            ("PostUnmount", HookPoint::PostUnmount, &lines.rabbit_post_unmount),
        ],
    };
    // The sites' controllers read a client's overrides from the OST options; an override in the client options replaces
    // an override in the OST options.
    let mut overrides = profile.ost_options.target.variable_override.clone();
    overrides.extend(profile.client_options.variable_override.clone());
    Commands {
        shared_vg: false,
        overrides,
        mount: Line { field: format!("{field}.mount{suffix}"), text: mount.clone() },
        unmount: Line { field: format!("{field}.unmount{suffix}"), text: unmount.clone() },
        hooks: hooks
            .into_iter()
            .map(|(name, phase, lines)| HookLines {
                field: format!("{field}.{prefix}{name}"),
                phase,
                lines: lines.clone(),
            })
            .collect(),
        volume: VolumeLines::default(),
    }
}

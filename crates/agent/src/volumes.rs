//! The volume layer, which lies between NVMe namespaces and file systems, and a profile's command lines for this layer.

use std::collections::BTreeMap;

use api::nnf_storage_profile::{LvChange, RabbitBlockDeviceCommands, VgChange};
use clap::ValueEnum;
use storage::{
    desired::{LvmLines, VolumeLayer},
    template::{SiteCommand, SiteCommandError},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Volumes {
    /// Logical volumes, made by the lines of the profile; a profile without such lines gets none
    Lvm,
    /// Nothing: a volume is the one namespace of its allocation
    Plain,
}

impl Volumes {
    /// Returns the layer that the flag names. Without the flag the layer depends on the drives: if files take the place
    /// of drives (`on_files`), volumes are plain, because the machine may lack device-mapper.
    #[must_use]
    pub fn or_by_drives(flag: Option<Self>, on_files: bool) -> Self {
        flag.unwrap_or(if on_files { Self::Plain } else { Self::Lvm })
    }

    pub fn layer(self, lines: LvmLines) -> VolumeLayer {
        let LvmLines { leaves_lock_space, finds_names, .. } = lines;
        let none = LvmLines { leaves_lock_space, finds_names, ..LvmLines::default() };
        match self {
            Self::Plain => VolumeLayer::Plain,
            Self::Lvm if lines == none => VolumeLayer::Plain,
            Self::Lvm => VolumeLayer::Lvm(Box::new(lines)),
        }
    }
}

/// Returns the lines beneath `field` of a profile that start and stop a volume group's lock space, and that activate
/// and deactivate a volume.
pub fn activation(
    field: &str,
    (group, volume): (&VgChange, &LvChange),
    variables: &BTreeMap<String, String>,
) -> Result<LvmLines, SiteCommandError> {
    let line = lines_beneath(field, variables);
    Ok(LvmLines {
        lock_start: line("vgChange.lockStart", &group.lock_start)?,
        lock_stop: line("vgChange.lockStop", &group.lock_stop)?,
        activate: line("lvChange.activate", &volume.activate)?,
        deactivate: line("lvChange.deactivate", &volume.deactivate)?,
        ..LvmLines::default()
    })
}

/// Returns all lines with which a rabbit creates, activates, repairs and removes a volume.
pub fn rabbit_lines(
    field: &str,
    commands: &RabbitBlockDeviceCommands,
    variables: &BTreeMap<String, String>,
) -> Result<LvmLines, SiteCommandError> {
    let line = lines_beneath(field, variables);
    let rebuild = &commands.lvm_rebuild;
    Ok(LvmLines {
        pv_create: line("pvCreate", &commands.pv_create)?,
        pv_remove: line("pvRemove", &commands.pv_remove)?,
        vg_create: line("vgCreate", &commands.vg_create)?,
        vg_remove: line("vgRemove", &commands.vg_remove)?,
        vg_extend: line("lvmRebuild.vgExtend", &rebuild.vg_extend)?,
        vg_reduce: line("lvmRebuild.vgReduce", &rebuild.vg_reduce)?,
        lv_create: line("lvCreate", &commands.lv_create)?,
        lv_remove: line("lvRemove", &commands.lv_remove)?,
        lv_repair: line("lvmRebuild.lvRepair", &rebuild.lv_repair)?,
        ..activation(field, (&commands.vg_change, &commands.lv_change), variables)?
    })
}

/// Returns a function that reads the line `name` beneath `field`; `None` if the line is empty.
fn lines_beneath<'a>(
    field: &'a str,
    variables: &'a BTreeMap<String, String>,
) -> impl Fn(&str, &str) -> Result<Option<SiteCommand>, SiteCommandError> + 'a {
    move |name, text| SiteCommand::new(&format!("{field}.{name}"), text, variables.clone())
}

//! The volume or file system behind `spec.mounts[].device`.

use std::str::FromStr;

use api::{
    RabbitLabels,
    client_mount::{ClientMountDeviceReference, ClientMountInfo, DeviceType},
    names::label,
};
use storage::{
    desired::{
        FileSystemId, FileSystemKind, MountSource, NamespaceId, ObjectUid, Volume, VolumeLayer,
    },
    template,
};

use super::{Context, Goal, MountProblem, commands::Commands, object_variables};

/// The source of a mount, and the allocation to which the source belongs.
pub(super) struct Device {
    pub(super) source: MountSource,
    pub(super) reference: Option<Reference>,
}

/// The allocation whose file system or volume a mount makes visible.
pub(super) struct Reference {
    pub(super) rabbit: String,
    pub(super) index: u32,
}

impl Device {
    pub(super) fn read(
        context: &Context<'_>,
        info: &ClientMountInfo,
        kind: FileSystemKind,
        commands: &Commands,
    ) -> Result<Self, MountProblem> {
        if kind == FileSystemKind::Lustre {
            return Ok(Self { source: lustre(info)?, reference: None });
        }
        let reference =
            info.device.device_reference.as_ref().ok_or(MountProblem::MissingField {
                field: "device.deviceReference",
                remedy: "name the NnfNodeStorage that holds the file system",
            })?;
        let index = u32::try_from(reference.allocation_index())
            .map_err(|_| MountProblem::AllocationIndex(reference.allocation_index()))?;
        let namespaces = match namespaces(context, info, kind, reference) {
            // To unmount, the agent needs no NVMe namespaces: it recognises the file system by its UUID.
            Err(_) if context.goal == Goal::Unmounted => Vec::new(),
            namespaces => namespaces?,
        };
        let rabbit = non_empty(
            reference.object_reference.namespace.as_ref(),
            "device.deviceReference.objectReference.namespace",
        )?;
        let name = non_empty(
            reference.object_reference.name.as_ref(),
            "device.deviceReference.objectReference.name",
        )?;
        let remedy = "the uid of the NnfStorage";
        let owner: ObjectUid = parsed_label(context, label::TARGET_OWNER_UID, remedy)?;
        let id = FileSystemId::derive(owner, rabbit, name, index);
        let (group, logical) = volume_names(context, info, owner, index, commands)?;
        // `Plain` is a placeholder. The caller sets the real layer later: the lines of that layer may contain the
        // volume's name, which becomes a variable only after this function has returned.
        let layer = VolumeLayer::Plain;
        let volume = Volume { group, logical, namespaces, made_for: None, layer };
        Ok(Self {
            source: MountSource::Volume { volume, id },
            reference: Some(Reference { rabbit: rabbit.to_owned(), index }),
        })
    }
}

/// Returns the value of a field that must not be empty.
fn non_empty<'a>(value: Option<&'a String>, field: &'static str) -> Result<&'a str, MountProblem> {
    value.map(String::as_str).filter(|text| !text.is_empty()).ok_or(MountProblem::MissingField {
        field,
        remedy: "name the NnfNodeStorage that holds the file system",
    })
}

fn namespaces(
    context: &Context<'_>,
    info: &ClientMountInfo,
    kind: FileSystemKind,
    reference: &ClientMountDeviceReference,
) -> Result<Vec<NamespaceId>, MountProblem> {
    match &info.device.kind {
        DeviceType::Reference => (context.references)(reference).map_err(MountProblem::Reference),
        DeviceType::Lvm => nvme_info(info),
        DeviceType::Lustre | DeviceType::Other(_) => Err(MountProblem::DeviceType {
            found: info.device.kind.to_string(),
            kind: kind.to_string(),
            remedy: "lvm on a compute, reference on a rabbit",
        }),
    }
}

fn nvme_info(info: &ClientMountInfo) -> Result<Vec<NamespaceId>, MountProblem> {
    let missing = |field| MountProblem::MissingField {
        field,
        remedy: "list the namespaces as {deviceSerial, namespaceID}",
    };
    let lvm = info.device.lvm.as_ref().ok_or(missing("device.lvm"))?;
    if lvm.nvme_info.is_empty() {
        return Err(missing("device.lvm.nvmeInfo"));
    }
    lvm.nvme_info
        .iter()
        .map(|nvme| {
            NamespaceId::parse(&nvme.device_serial, &nvme.namespace_id)
                .map_err(MountProblem::Namespace)
        })
        .collect()
}

fn parsed_label<T: FromStr>(
    context: &Context<'_>,
    label: &'static str,
    remedy: &'static str,
) -> Result<T, MountProblem> {
    let value = context.client_mount.label(label).ok_or(MountProblem::MissingLabel(label))?;
    value.parse().map_err(|_| MountProblem::BadLabel { label, value: value.to_owned(), remedy })
}

/// Returns the names of volume group and volume: `<owner>_<directive>` and `lv-<index>` in a shared group, otherwise
/// `<owner>_<directive>_<index>` and `lv`. The profile may override both names. All nodes with access to the volume
/// must use the same names.
fn volume_names(
    context: &Context<'_>,
    info: &ClientMountInfo,
    owner: ObjectUid,
    index: u32,
    commands: &Commands,
) -> Result<(String, String), MountProblem> {
    let remedy = "the directive's number, counted from 0";
    let directive: u32 = parsed_label(context, label::TARGET_DIRECTIVE_INDEX, remedy)?;
    let (group, logical) = if commands.shared_vg {
        (format!("{owner}_{directive}"), format!("lv-{index}"))
    } else {
        (format!("{owner}_{directive}_{index}"), "lv".to_owned())
    };
    let variables = object_variables::table(context.client_mount, info);
    let named = |name: &str, default: String| {
        commands.overrides.get(name).map_or(default, |text| template::expand(text, &variables))
    };
    Ok((named("$VG_NAME", group), named("$LV_NAME", logical)))
}

fn lustre(info: &ClientMountInfo) -> Result<MountSource, MountProblem> {
    if info.device.kind != DeviceType::Lustre {
        return Err(MountProblem::DeviceType {
            found: info.device.kind.to_string(),
            kind: "lustre".to_owned(),
            remedy: "lustre",
        });
    }
    let lustre = info.device.lustre.as_ref().ok_or(MountProblem::MissingField {
        field: "device.lustre",
        remedy: "name the file system and its MGS",
    })?;
    let (name, mgs) = (&lustre.file_system_name, &lustre.mgs_addresses);
    let invalid = |field, value: &String, expected| {
        Err(MountProblem::Lustre { field, value: value.clone(), expected })
    };
    // lustre(7): a file system name has at most 8 characters.
    let is_name = (1..=8).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    if !is_name {
        let expected = "a Lustre file system name: use 1 to 8 letters, digits, '_', '-' or '.'";
        return invalid("device.lustre.fileSystemName", name, expected);
    }
    let is_mgs = !mgs.is_empty()
        && mgs.bytes().all(|b| b.is_ascii_alphanumeric() || b"@.:,_-[]".contains(&b))
        && !mgs.starts_with('-');
    if !is_mgs {
        let expected = "an MGS address: use <address>@<network>, several joined by ':' or ','";
        return invalid("device.lustre.mgsAddresses", mgs, expected);
    }
    Ok(MountSource::Lustre(format!("{mgs}:/{name}")))
}

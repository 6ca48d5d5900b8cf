//! Reads device-mapper's devices from sysfs (Documentation/ABI/testing/sysfs-block-dm), so that the agent can check
//! without a tool whether a logical volume is active.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use storage::{
    desired::{Volume, mapper_name},
    observed::{
        Activation, BlockDevice, DeviceNumber, LvmState, Mapped, Mapping, Unfinished, is_part_of,
    },
};

use block_devices::number;
use drives::nvme::is_gone;

const BLOCK: &str = "/sys/block";

/// A mapping: its block device and its name in `/dev/mapper`.
struct Found {
    block: PathBuf,
    name: String,
}

/// Returns the active mappings of a logical volume on this node.
pub(super) fn state(volume: &Volume, devices: &[BlockDevice]) -> io::Result<LvmState> {
    let wanted = volume.mapper_name();
    let group = mapper_name(&volume.group, "");
    let mut state =
        LvmState { in_lock_space: in_lock_space(&volume.group)?, ..LvmState::default() };
    let mut leftovers = Vec::new();
    for mapping in all(Path::new(BLOCK))? {
        if mapping.name == wanted && is_usable(&mapping.block)? {
            let active = unless_gone(describe(&mapping, devices))?;
            state.activation = active.map_or(Activation::Inactive, Activation::Active);
        } else if belongs_to(&mapping.name, &wanted) {
            leftovers.extend(unless_gone(unfinished(&mapping))?);
        } else if mapping.name.strip_prefix(&group).is_some_and(|rest| !rest.starts_with('-')) {
            state.siblings_active = true;
        }
    }
    if state.active().is_none() {
        state.activation = Activation::of_leftovers(leftovers);
    }
    Ok(state)
}

/// Returns whether a mapping is the mapping of the volume itself, or of a part of its RAID.
pub(super) fn belongs_to(name: &str, volume: &str) -> bool {
    name == volume || is_part_of(name, volume)
}

/// Returns whether a mapping can be read. A mapping has no size until its first table is active (Linux drivers/md/dm.c,
/// `__bind`), and a read of a suspended mapping blocks.
fn is_usable(block: &Path) -> io::Result<bool> {
    let read = |attribute: &str| match fs::read_to_string(block.join(attribute)) {
        Ok(text) => Ok(text),
        Err(error) if is_gone(&error) || is_being_removed(&error) => Ok("0".to_owned()),
        Err(error) => Err(error),
    };
    Ok(read("size")?.trim() != "0" && read("dm/suspended")?.trim() == "0")
}

fn unfinished(mapping: &Found) -> io::Result<Unfinished> {
    let number = number(&mapping.block)?;
    Ok(Unfinished { name: mapping.name.clone(), number })
}

fn describe(mapping: &Found, devices: &[BlockDevice]) -> io::Result<Mapped> {
    let number = number(&mapping.block)?;
    let is_ours = |found: &DeviceNumber| devices.iter().any(|device| device.number == *found);
    let bottom = bottom(&mapping.block)?;
    Ok(Mapped {
        path: Path::new("/dev/mapper").join(&mapping.name),
        number,
        foreign_devices: bottom
            .into_iter()
            .filter(|(_, device)| !is_ours(device))
            .map(|(name, _)| name)
            .collect(),
        // The module [`super::unfinished`] finds the unused parts later, if the RAID has lost a part; otherwise the
        // planner does not need them.
        unused_parts: Vec::new(),
    })
}

pub(super) fn find(name: &str) -> io::Result<Option<DeviceNumber>> {
    let found = all(Path::new(BLOCK))?.into_iter().find(|mapping| mapping.name == name);
    let number = found.map(|mapping| unless_gone(number(&mapping.block))).transpose()?;
    Ok(number.flatten())
}

/// Returns all mappings, with the devices beneath them.
pub(super) fn mappings() -> io::Result<Vec<Mapping>> {
    mappings_in(Path::new(BLOCK))
}

fn mappings_in(sysfs: &Path) -> io::Result<Vec<Mapping>> {
    let mut mappings = Vec::new();
    for Found { block, name } in all(sysfs)? {
        let mut devices = Vec::new();
        let read = descend(&block, &mut devices).and_then(|layers| Ok((layers, number(&block)?)));
        match read {
            Ok((layers, number)) => mappings.push(Mapping { name, number, layers, on: devices }),
            // The mapping was removed meanwhile.
            Err(error) if is_gone(&error) && !block.try_exists()? => {}
            Err(error) => return Err(error),
        }
    }
    Ok(mappings)
}

/// Adds to `on` the devices beneath a mapping that are not mappings themselves, and counts the layers down to them. A
/// device that was pulled remains among the mapping's slaves as a dangling link, and is left out.
fn descend(block: &Path, on: &mut Vec<String>) -> io::Result<usize> {
    let mut layers = 0;
    for below in fs::read_dir(block.join("slaves"))? {
        let below = below?;
        let path = below.path();
        if path.join("dm").try_exists()? {
            layers = layers.max(descend(&path, on)?);
        } else if path.try_exists()? {
            on.push(below.file_name().to_string_lossy().into_owned());
        }
    }
    on.sort();
    on.dedup();
    Ok(layers + 1)
}

/// Returns the devices at the bottom of a mapping; none for a device that is not a mapping.
pub(super) fn bottom_of(device: DeviceNumber) -> io::Result<Vec<DeviceNumber>> {
    let block = PathBuf::from(format!("/sys/dev/block/{device}"));
    if !block.join("dm").exists() {
        return Ok(Vec::new());
    }
    Ok(bottom(&block)?.into_iter().map(|(_, number)| number).collect())
}

/// Returns the devices at the bottom of a mapping. A device that was unplugged or detached while the mapping has it
/// open is no longer in sysfs; its link among the mapping's slaves dangles, and the device is left out.
fn bottom(block: &Path) -> io::Result<Vec<(String, DeviceNumber)>> {
    let mut found = Vec::new();
    let slaves = match fs::read_dir(block.join("slaves")) {
        Ok(slaves) => slaves,
        // A partition has no such directory.
        Err(error) if is_gone(&error) => return Ok(found),
        Err(error) => return Err(error),
    };
    for below in slaves {
        let below = below?;
        let further = bottom(&below.path())?;
        if further.is_empty() && !below.path().join("dm").exists() {
            let name = below.file_name().to_string_lossy().into_owned();
            match number(&below.path()) {
                Ok(number) => found.push((name, number)),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        } else {
            found.extend(further);
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// Lists all mappings, without those that are removed during the search.
fn all(sysfs: &Path) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(sysfs)? {
        let block = entry?.path();
        if !block.file_name().is_some_and(|name| name.to_string_lossy().starts_with("dm-")) {
            continue;
        }
        match fs::read_to_string(block.join("dm/name")) {
            Ok(name) => found.push(Found { block, name: name.trim_end().to_owned() }),
            Err(error) if is_gone(&error) || is_being_removed(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Returns whether an attribute could not be read because the removal of the mapping has
/// begun (Linux drivers/md/dm-sysfs.c, `dm_attr_show`).
fn is_being_removed(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

fn unless_gone<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether this node has joined a group's lock space. lvmlockd names the lock space `lvm_<group>` (lvm2,
/// daemons/lvmlockd/lvmlockd-core.c); sysfs shows each lock space that this node has joined (Linux fs/dlm/lockspace.c).
fn in_lock_space(group: &str) -> io::Result<bool> {
    Path::new("/sys/kernel/dlm").join(format!("lvm_{group}")).try_exists()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn parts_of_a_raid_belong_to_its_volume() {
        assert!(belongs_to("vg-lv", "vg-lv"));
        assert!(belongs_to("vg-lv_rimage_0", "vg-lv"));
        assert!(belongs_to("vg-lv_rmeta_2", "vg-lv"));
        assert!(!belongs_to("vg-lv--1", "vg-lv"));
        assert!(!belongs_to("vg-lv2", "vg-lv"));
        assert!(!belongs_to("vg-lv_reads", "vg-lv"), "LVM does not reserve this name");
    }

    /// Creates the files with which sysfs shows a RAID of two drives, the second of which was pulled.
    #[test]
    fn bottom_leaves_out_a_pulled_drive() {
        let sys = tempfile::tempdir().unwrap();
        let block = |name: &str| sys.path().join(name);
        for (mapping, slaves) in
            [("dm-2", &["dm-0", "dm-1"]), ("dm-0", &["nvme0n1", ""]), ("dm-1", &["nvme1n1", ""])]
        {
            fs::create_dir_all(block(mapping).join("dm")).unwrap();
            fs::create_dir_all(block(mapping).join("slaves")).unwrap();
            for slave in slaves.iter().filter(|slave| !slave.is_empty()) {
                symlink(block(slave), block(mapping).join("slaves").join(slave)).unwrap();
            }
        }
        fs::create_dir_all(block("nvme0n1/slaves")).unwrap();
        fs::write(block("nvme0n1/dev"), "259:4\n").unwrap();
        let beneath = bottom(&block("dm-2")).unwrap();
        assert_eq!(beneath, [("nvme0n1".to_owned(), DeviceNumber { major: 259, minor: 4 })]);
        assert_eq!(bottom(&block("dm-1")).unwrap(), []);
    }

    #[test]
    fn mappings_are_listed_with_the_devices_beneath_except_pulled_ones() {
        let sysfs = tempfile::tempdir().unwrap();
        let device = |name: &str, dm: Option<&str>, number: &str| {
            let block = sysfs.path().join(name);
            fs::create_dir_all(block.join("slaves")).unwrap();
            fs::write(block.join("dev"), format!("{number}\n")).unwrap();
            if let Some(dm) = dm {
                fs::create_dir(block.join("dm")).unwrap();
                fs::write(block.join("dm/name"), format!("{dm}\n")).unwrap();
            }
        };
        let lies_on = |above: &str, below: &str| {
            let link = sysfs.path().join(above).join("slaves").join(below);
            std::os::unix::fs::symlink(sysfs.path().join(below), link).unwrap();
        };
        device("nvme0n1", None, "259:0");
        device("dm-0", Some("vg-lv_rimage_0"), "253:0");
        device("dm-1", Some("vg-lv_rimage_1"), "253:1");
        device("dm-2", Some("vg-lv"), "253:2");
        lies_on("dm-0", "nvme0n1");
        lies_on("dm-1", "nvme1n1");
        lies_on("dm-2", "dm-0");
        lies_on("dm-2", "dm-1");
        let mut found = mappings_in(sysfs.path()).unwrap();
        found.sort_by_key(|mapping| mapping.number);
        let found: Vec<_> = found
            .iter()
            .map(|mapping| (&*mapping.name, mapping.layers, mapping.on.len()))
            .collect();
        assert_eq!(found, [("vg-lv_rimage_0", 1, 1), ("vg-lv_rimage_1", 1, 0), ("vg-lv", 2, 1)]);
    }

    #[test]
    fn a_node_without_lock_manager_is_in_no_lock_space() {
        assert!(!in_lock_space("no-such-group").unwrap());
    }
}

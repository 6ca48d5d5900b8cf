//! What the kernel knows of NVMe drives without asking them for more than their temperature.

use std::{collections::BTreeMap, fs, io, path::Path};

use super::pci;
use crate::{
    desired::Nqn,
    health::{DriveFacts, Temperature},
    linux::drives::{ControllerNode, Sysfs, attribute},
};

/// Facts of every drive whose physical function this node has.
pub(super) fn read(sysfs: &Path) -> io::Result<BTreeMap<Nqn, DriveFacts>> {
    let nvme = Sysfs::new(sysfs);
    let mut found: BTreeMap<Nqn, DriveFacts> = BTreeMap::new();
    for controller in nvme.controllers()?.into_iter().filter(|it| it.is_physical) {
        // The second port of a drive that was seen already.
        if !found.contains_key(&controller.nqn) {
            found.insert(controller.nqn.clone(), drive(sysfs, &controller)?);
        }
    }
    for block in nvme.blocks()? {
        let name = block.device.path.file_name().unwrap_or_default();
        let read_only = attribute(&sysfs.join("class/block").join(name), "ro")?;
        if read_only.is_some_and(|it| it == "1")
            && let Some(drive) = found.get_mut(&block.device.namespace.subsystem)
        {
            drive.read_only.push(block.device.namespace.nsid);
        }
    }
    Ok(found)
}

fn drive(sysfs: &Path, controller: &ControllerNode) -> io::Result<DriveFacts> {
    let class = sysfs.join("class/nvme").join(&controller.name);
    Ok(DriveFacts {
        link: Some(pci::link(&controller.function)?),
        errors: pci::errors(&controller.function)?,
        temperature: temperature(&class)?,
        controller: attribute(&class, "state")?.unwrap_or_default(),
        read_only: Vec::new(),
    })
}

/// The composite temperature (drivers/nvme/host/hwmon.c): `hwmonN` lies beneath the controller since Linux 5.19, and beneath
/// its PCI function before.
fn temperature(controller: &Path) -> io::Result<Option<Temperature>> {
    for directory in
        [controller.to_owned(), controller.join("device/hwmon"), controller.join("hwmon")]
    {
        let Ok(listing) = fs::read_dir(&directory) else { continue };
        for entry in listing {
            let entry = entry?;
            if !entry.file_name().to_string_lossy().starts_with("hwmon") {
                continue;
            }
            let read = |name| Ok::<_, io::Error>(degrees(attribute(&entry.path(), name)?));
            if let Some(now) = read("temp1_input")? {
                let (warning, critical) = (read("temp1_max")?, read("temp1_crit")?);
                return Ok(Some(Temperature { now, warning, critical }));
            }
        }
    }
    Ok(None)
}

/// Thousandths of a degree (Documentation/hwmon/sysfs-interface.rst). A drive without a threshold says zero Kelvin.
fn degrees(text: Option<String>) -> Option<i64> {
    let thousandths: i64 = text?.parse().ok()?;
    Some(thousandths / 1000).filter(|degrees| *degrees > -273)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::health::{Link, LinkRate};

    /// As a 6.1 kernel shows a drive of QEMU's in a root port.
    fn plant(sysfs: &Path) {
        let put = |file: &str, text: &str| {
            let path = sysfs.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let function = "devices/pci0000:00/0000:00:03.0/0000:01:00.0";
        for (attribute, text) in [
            ("current_link_speed", "2.5 GT/s PCIe\n"),
            ("current_link_width", "1\n"),
            ("max_link_speed", "2.5 GT/s PCIe\n"),
            ("max_link_width", "1\n"),
        ] {
            put(&format!("{function}/{attribute}"), text);
        }
        for (attribute, text) in [
            ("subsysnqn", "nqn.2019-08.org.qemu:drive0\n"),
            ("transport", "pcie\n"),
            ("state", "live\n"),
            ("hwmon1/temp1_input", "49850\n"),
            ("hwmon1/temp1_max", "69850\n"),
            ("hwmon1/temp1_crit", "99850\n"),
        ] {
            put(&format!("class/nvme/nvme0/{attribute}"), text);
        }
        symlink(sysfs.join(function), sysfs.join("class/nvme/nvme0/device")).unwrap();
        for (attribute, text) in
            [("nsid", "3\n"), ("dev", "259:1\n"), ("hidden", "0\n"), ("ro", "1\n")]
        {
            put(&format!("class/block/nvme0n1/{attribute}"), text);
        }
        put("class/block/nvme0n1/device/subsysnqn", "nqn.2019-08.org.qemu:drive0\n");
    }

    #[test]
    fn a_drive_is_read_with_its_link_its_warmth_and_its_namespaces() {
        let sysfs = tempfile::tempdir().unwrap();
        assert!(read(sysfs.path()).unwrap().is_empty());
        plant(sysfs.path());
        let found = read(sysfs.path()).unwrap();
        let rate = Some(LinkRate { transfers: 2500, lanes: 1 });
        let facts = DriveFacts {
            link: Some(Link::Up { current: rate, most: rate }),
            errors: None,
            temperature: Some(Temperature { now: 49, warning: Some(69), critical: Some(99) }),
            controller: "live".into(),
            read_only: vec![3],
        };
        let nqn: Nqn = "nqn.2019-08.org.qemu:drive0".parse().unwrap();
        assert_eq!(found, BTreeMap::from([(nqn, facts)]));
    }

    #[test]
    fn a_threshold_of_zero_kelvin_is_none() {
        assert_eq!(degrees(Some("-273150".into())), None);
        assert_eq!(degrees(Some("-20000".into())), Some(-20));
    }
}

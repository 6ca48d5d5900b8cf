//! Finds NVMe devices in sysfs (Documentation/ABI/stable/sysfs-driver-nvme, Documentation/nvme/multipath.rst).
//!
//! Device names do not identify a drive: `nvme1n1` belongs to subsystem 1, and the controllers of that subsystem
//! may have other numbers.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use storage::{
    desired::{NamespaceId, Nqn},
    observed::{BlockDevice, DeviceNumber},
};

use super::ledger::SlotAndSerial;
use files::none_if_absent;

/// The mount point of sysfs, usually `/sys`.
#[derive(Debug, Clone)]
pub struct Sysfs(PathBuf);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerNode {
    /// Device name, for example `nvme0`.
    pub name: String,
    pub nqn: Nqn,
    pub model: String,
    /// Serial number without surrounding blanks; empty when Linux does not know the serial number.
    pub serial: String,
    /// Linux's name of the chassis slot that holds the drive: the slot number of the port, which the manufacturer sets
    /// (Documentation/ABI/testing/sysfs-bus-pci).
    pub slot: Option<String>,
    /// Directory of the controller's PCI function.
    pub function: PathBuf,
    /// Whether the PCI function is a physical function; false for a virtual function.
    pub is_physical: bool,
}

/// A namespace that this node has as a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockNode {
    pub device: BlockDevice,
    /// NGUID as 32 digits. Empty when the drive has no NGUID, or when Linux does not trust it (NVME_QUIRK_BOGUS_NID).
    nguid: String,
}

impl ControllerNode {
    /// Returns the drive's slot and serial number, if both are known.
    pub(super) fn slot_and_serial(&self) -> Option<SlotAndSerial> {
        let slot = self.slot.clone()?;
        Some(SlotAndSerial { slot, serial: self.serial.clone() })
            .filter(|found| !found.serial.is_empty())
    }

    /// Returns whether this drive is another drive than `other`, and is in the slot where `other` was last seen.
    pub(super) fn took_the_place_of(&self, other: &SlotAndSerial) -> bool {
        self.slot_and_serial()
            .is_some_and(|own| own.slot == other.slot && own.serial != other.serial)
    }
}

impl BlockNode {
    /// Returns whether the device can be the namespace with this NGUID. A device whose NGUID Linux does not know also
    /// counts as that namespace, because the drive itself has identified the namespace.
    pub(super) fn may_be(&self, nguid: &str) -> bool {
        self.nguid.is_empty() || self.nguid == nguid
    }
}

/// Mass storage, non-volatile memory, NVM Express (PCI Code and ID Assignment Specification, 1.2).
const NVME_CLASS: &str = "0x010802";

impl Sysfs {
    pub fn new(root: &Path) -> Self {
        Self(root.to_owned())
    }

    /// Returns the physical functions whose NQN is invalid and that therefore cannot be identified,
    /// each with the reason.
    pub fn misnamed(&self) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for path in entries(&self.0.join("class/nvme"))? {
            // A controller that has not started yet has no NQN.
            let Some(nqn) = attribute(&path, "subsysnqn")?.filter(|nqn| !nqn.is_empty()) else {
                continue;
            };
            if let Err(error) = nqn.parse::<Nqn>()
                && !path.join("device/physfn").exists()
            {
                found.push(format!("{} is left out: {error}", name(&path)));
            }
        }
        Ok(found)
    }

    /// Returns all controllers, by device name, without those whose NQN is invalid.
    pub fn controllers(&self) -> io::Result<Vec<ControllerNode>> {
        let mut found = Vec::new();
        let slots = self.slots()?;
        for path in entries(&self.0.join("class/nvme"))? {
            let Some(nqn) = attribute(&path, "subsysnqn")?.and_then(|nqn| nqn.parse().ok()) else {
                continue;
            };
            let transport = attribute(&path, "transport")?.unwrap_or_default();
            let function = path.join("device");
            let is_physical = transport == "pcie" && !function.join("physfn").exists();
            let function = function.canonicalize().unwrap_or(function);
            found.push(ControllerNode {
                name: name(&path),
                nqn,
                model: attribute(&path, "model")?.unwrap_or_default(),
                serial: attribute(&path, "serial")?.unwrap_or_default(),
                slot: slot(&name(&function), &slots),
                is_physical,
                function,
            });
        }
        Ok(found)
    }

    /// Returns the PCI address of an NVMe drive whose NQN is unknown because none of its controllers has started;
    /// `None` when there is no such drive.
    pub(super) fn device_without_nqn(&self) -> io::Result<Option<String>> {
        for function in entries(&self.0.join("bus/pci/devices"))? {
            let class = attribute(&function, "class")?;
            if class.as_deref() != Some(NVME_CLASS) || function.join("physfn").exists() {
                continue;
            }
            let has_nqn = |path: &PathBuf| {
                Ok::<_, io::Error>(attribute(path, "subsysnqn")?.is_some_and(|nqn| !nqn.is_empty()))
            };
            let controllers = entries(&function.join("nvme"))?;
            let have_nqn = controllers.iter().map(has_nqn).collect::<Result<Vec<_>, _>>()?;
            // A function that is passed through to a virtual machine never gets a controller on this node.
            let driver = fs::read_link(function.join("driver")).ok();
            let is_passed_on = driver.is_some_and(|driver| name(&driver) != "nvme");
            if !have_nqn.contains(&true) && !is_passed_on {
                return Ok(Some(format!("PCI function {}", name(&function))));
            }
        }
        Ok(None)
    }

    /// Returns the names of the slots, by the address of the device in each slot, for example `0000:01:00`.
    fn slots(&self) -> io::Result<BTreeMap<String, String>> {
        let mut found = BTreeMap::new();
        for slot in entries(&self.0.join("bus/pci/slots"))? {
            found.extend(attribute(&slot, "address")?.map(|address| (address, name(&slot))));
        }
        Ok(found)
    }

    /// Returns whether the controller's name still belongs to the same controller: the kernel gives the name of a
    /// removed controller to the next one.
    pub(super) fn is_still(&self, node: &ControllerNode) -> bool {
        let path = self.0.join("class/nvme").join(&node.name);
        let now = attribute(&path, "subsysnqn").ok().flatten().and_then(|nqn| nqn.parse().ok());
        let function = path.join("device").canonicalize();
        now.as_ref() == Some(&node.nqn) && function.is_ok_and(|function| function == node.function)
    }

    /// Returns the block devices of a namespace, which is given by its identity. Reads only the block devices of the
    /// namespace's drive, because a rabbit has hundreds of block devices.
    pub(super) fn blocks_of(&self, id: &NamespaceId) -> io::Result<Vec<BlockNode>> {
        let mut found = Vec::new();
        for path in self.namespaces_in(&id.subsystem)? {
            let nsid = attribute(&path, "nsid")?.and_then(|nsid| nsid.parse().ok());
            if nsid == Some(id.nsid) {
                found.extend(self.block(&path)?.filter(|block| block.device.namespace == *id));
            }
        }
        Ok(found)
    }

    /// Returns the directories of a subsystem's namespaces. They are beneath the subsystem if Linux combines the paths
    /// to a namespace (multipath), and beneath the subsystem's controllers otherwise.
    fn namespaces_in(&self, subsystem: &Nqn) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for path in entries(&self.0.join("class/nvme-subsystem"))? {
            let nqn = attribute(&path, "subsysnqn")?.and_then(|nqn| nqn.parse().ok());
            if nqn.as_ref() != Some(subsystem) {
                continue;
            }
            for path in entries(&path)?.into_iter().filter(|path| name(path).starts_with("nvme")) {
                if is_namespace(&path) {
                    found.push(path);
                } else {
                    found.extend(entries(&path)?.into_iter().filter(|path| is_namespace(path)));
                }
            }
        }
        Ok(found)
    }

    /// Returns all namespaces that have a block device. The hidden paths beneath a multipath device are left out.
    pub fn blocks(&self) -> io::Result<Vec<BlockNode>> {
        let mut found = Vec::new();
        for path in entries(&self.0.join("class/block"))? {
            found.extend(self.block(&path)?);
        }
        Ok(found)
    }

    pub(super) fn namespace_of(&self, number: DeviceNumber) -> Option<NamespaceId> {
        let node = self.block(&self.0.join(format!("dev/block/{number}"))).ok()??;
        Some(node.device.namespace)
    }

    fn block(&self, path: &Path) -> io::Result<Option<BlockNode>> {
        let Some(nsid) = attribute(path, "nsid")?.and_then(|nsid| nsid.parse().ok()) else {
            return Ok(None);
        };
        let number = attribute(path, "dev")?.and_then(|number| DeviceNumber::parse(&number));
        let nqn = attribute(&path.join("device"), "subsysnqn")?.and_then(|nqn| nqn.parse().ok());
        let is_hidden = attribute(path, "hidden")?.is_some_and(|hidden| hidden == "1");
        let (Some(number), Some(subsystem), false) = (number, nqn, is_hidden) else {
            return Ok(None);
        };
        let device = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Ok(Some(BlockNode {
            device: BlockDevice {
                namespace: NamespaceId { subsystem, nsid },
                path: Path::new("/dev").join(name(&device)),
                number,
            },
            nguid: attribute(path, "nguid")?.unwrap_or_default().replace('-', ""),
        }))
    }
}

/// Returns whether a name has the form `nvme<instance>n<namespace>`; the name of a path beneath a multipath device
/// contains `c<controller>` between the two parts.
fn is_namespace(path: &Path) -> bool {
    let name = name(path);
    let rest = name.strip_prefix("nvme").unwrap_or_default();
    rest.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with('n')
}

/// Returns the slot that holds a PCI function: the slot of the function `0000:01:00.0` has the address `0000:01:00`.
fn slot(function: &str, slots: &BTreeMap<String, String>) -> Option<String> {
    slots.get(function.rsplit_once('.')?.0).cloned()
}

/// Returns the text of an attribute; `None` when the device was removed meanwhile.
pub fn attribute(device: &Path, name: &str) -> io::Result<Option<String>> {
    match fs::read_to_string(device.join(name)) {
        Ok(text) => Ok(Some(text.trim_matches([' ', '\n', '\0']).to_owned())),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether an error shows that the device was removed: its attributes no longer exist, or a read of them fails
/// with ENODEV during the removal.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(libc::ENODEV)
}

/// Lists a directory in sorted order. The list is empty when the directory does not exist, as on a kernel that has
/// never had an NVMe controller.
fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(listing) = none_if_absent(fs::read_dir(directory))? else { return Ok(Vec::new()) };
    let paths = listing.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

pub(super) fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;

//! NVMe devices in sysfs (Documentation/ABI/stable/sysfs-driver-nvme, Documentation/nvme/multipath.rst).
//!
//! Device names identify nothing: `nvme1n1` belongs to subsystem 1, whatever its controllers are called.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use super::ledger::SlotAndSerial;
use crate::{
    desired::{NamespaceId, Nqn},
    linux::found::found,
    observed::{BlockDevice, DeviceNumber},
};

/// The path of a sysfs, usually `/sys`.
#[derive(Debug, Clone)]
pub(in crate::linux) struct Sysfs(PathBuf);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::linux) struct ControllerNode {
    /// e.g. `nvme0`.
    pub(in crate::linux) name: String,
    pub(in crate::linux) nqn: Nqn,
    pub(super) model: String,
    /// Its serial number without blanks around it; empty when Linux does not tell.
    pub(super) serial: String,
    /// The chassis slot that it is plugged into, by Linux' name: the number that the port has from the factory
    /// (Documentation/ABI/testing/sysfs-bus-pci, /sys/bus/pci/slots).
    pub(super) slot: Option<String>,
    /// The directory of its PCI function.
    pub(in crate::linux) function: PathBuf,
    /// Whether it is a physical PCI function, not a virtual one.
    pub(in crate::linux) is_physical: bool,
}

/// A namespace that this node has as a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::linux) struct BlockNode {
    pub(in crate::linux) device: BlockDevice,
    /// Its NGUID as 32 digits; empty when the drive has none, or Linux does not trust it (NVME_QUIRK_BOGUS_NID).
    nguid: String,
}

impl ControllerNode {
    /// The drive's slot and serial number, if known.
    pub(super) fn slot_and_serial(&self) -> Option<SlotAndSerial> {
        let slot = self.slot.clone()?;
        Some(SlotAndSerial { slot, serial: self.serial.clone() })
            .filter(|found| !found.serial.is_empty())
    }

    /// Whether this drive is in the slot of another one.
    pub(super) fn took_the_place_of(&self, other: &SlotAndSerial) -> bool {
        self.slot_and_serial()
            .is_some_and(|own| own.slot == other.slot && own.serial != other.serial)
    }
}

impl BlockNode {
    /// Whether it can be the namespace with this NGUID. When Linux does not know the NGUID, the drive itself was asked.
    pub(super) fn may_be(&self, nguid: &str) -> bool {
        self.nguid.is_empty() || self.nguid == nguid
    }
}

/// Mass storage, non-volatile memory, NVM Express (PCI Code and ID Assignment Specification, 1.2).
const NVME_CLASS: &str = "0x010802";

impl Sysfs {
    pub(in crate::linux) fn new(root: &Path) -> Self {
        Self(root.to_owned())
    }

    /// Physical functions whose NQN is invalid, so that they cannot be identified: each with the reason.
    pub(in crate::linux) fn misnamed(&self) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for path in entries(&self.0.join("class/nvme"))? {
            // A controller that has not started has no NQN yet.
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

    /// All controllers, by device name; one with an invalid NQN is left out.
    pub(in crate::linux) fn controllers(&self) -> io::Result<Vec<ControllerNode>> {
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

    /// The PCI address of an NVMe drive without a started controller, so that its NQN is unknown.
    pub(super) fn nameless(&self) -> io::Result<Option<String>> {
        for function in entries(&self.0.join("bus/pci/devices"))? {
            let class = attribute(&function, "class")?;
            if class.as_deref() != Some(NVME_CLASS) || function.join("physfn").exists() {
                continue;
            }
            let named = |path: &PathBuf| {
                Ok::<_, io::Error>(attribute(path, "subsysnqn")?.is_some_and(|nqn| !nqn.is_empty()))
            };
            let controllers = entries(&function.join("nvme"))?;
            let is_named = controllers.iter().map(named).collect::<Result<Vec<_>, _>>()?;
            // A function that is passed through to a guest will never have one.
            let driver = fs::read_link(function.join("driver")).ok();
            let is_passed_on = driver.is_some_and(|driver| name(&driver) != "nvme");
            if !is_named.contains(&true) && !is_passed_on {
                return Ok(Some(format!("PCI function {}", name(&function))));
            }
        }
        Ok(None)
    }

    /// Slot names by the address of the device in the slot, e.g. `0000:01:00`.
    fn slots(&self) -> io::Result<BTreeMap<String, String>> {
        let mut found = BTreeMap::new();
        for slot in entries(&self.0.join("bus/pci/slots"))? {
            found.extend(attribute(&slot, "address")?.map(|address| (address, name(&slot))));
        }
        Ok(found)
    }

    /// Whether the name still belongs to the same controller: names pass to others when drives come and go.
    pub(super) fn is_still(&self, node: &ControllerNode) -> bool {
        let path = self.0.join("class/nvme").join(&node.name);
        let now = attribute(&path, "subsysnqn").ok().flatten().and_then(|nqn| nqn.parse().ok());
        let function = path.join("device").canonicalize();
        now.as_ref() == Some(&node.nqn) && function.is_ok_and(|function| function == node.function)
    }

    /// The block devices of a namespace, by its identity. Reads its drive's only: a rabbit has hundreds.
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

    /// Directories of a subsystem's namespaces: its own where Linux joins the paths (multipath), else its controllers'.
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

    /// All namespaces with a block device of their own; the hidden paths beneath a multipath device do not count.
    pub(in crate::linux) fn blocks(&self) -> io::Result<Vec<BlockNode>> {
        let mut found = Vec::new();
        for path in entries(&self.0.join("class/block"))? {
            found.extend(self.block(&path)?);
        }
        Ok(found)
    }

    pub(super) fn of_number(&self, number: DeviceNumber) -> Option<NamespaceId> {
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

/// Whether a name is `nvme<instance>n<namespace>`; a path beneath a multipath device has `c<controller>` in between.
fn is_namespace(path: &Path) -> bool {
    let name = name(path);
    let rest = name.strip_prefix("nvme").unwrap_or_default();
    rest.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with('n')
}

/// The slot of a PCI function: that of `0000:01:00.0` has the address `0000:01:00`.
fn slot(function: &str, slots: &BTreeMap<String, String>) -> Option<String> {
    slots.get(function.rsplit_once('.')?.0).cloned()
}

/// An attribute's text; `None` when the device was removed meanwhile.
pub(in crate::linux) fn attribute(of: &Path, name: &str) -> io::Result<Option<String>> {
    match fs::read_to_string(of.join(name)) {
        Ok(text) => Ok(Some(text.trim_matches([' ', '\n', '\0']).to_owned())),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A removed device's attributes are gone, or answer ENODEV while it goes.
pub(in crate::linux) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(libc::ENODEV)
}

/// A kernel that never saw an NVMe controller has no such directory.
fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(listing) = found(fs::read_dir(directory))? else { return Ok(Vec::new()) };
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

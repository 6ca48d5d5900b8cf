//! Finds the link to a compute by the PCI slot or function that the site configured.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use storage::health::Link;
use thiserror::Error;

use super::pci;
use drives::nvme::attribute;

/// The PCI slot or function behind which a compute is plugged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port(PciName);

#[derive(Debug, Clone, PartialEq, Eq)]
enum PciName {
    /// Name of a slot in `/sys/bus/pci/slots`.
    Slot(String),
    /// Address of a PCI function. If the function is a bridge, the function behind the bridge is meant.
    Function(String),
}

/// The text is neither a PCI slot nor the address of a PCI function.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{0:?} is neither a PCI slot nor a PCI function: use /sys/bus/pci/slots/NAME, or an address like 0000:41:00.0"
)]
pub struct PortError(String);

impl FromStr for Port {
    type Err = PortError;

    fn from_str(text: &str) -> Result<Self, PortError> {
        let plain = |name: &str| {
            !name.is_empty() && name != ".." && name != "." && !name.contains(['/', '\0'])
        };
        let port = match text.strip_prefix("/sys/bus/pci/slots/") {
            Some(name) if plain(name) => Some(PciName::Slot(name.to_owned())),
            Some(_) => None,
            None => is_address(text).then(|| PciName::Function(text.to_lowercase())),
        };
        port.map(Self).ok_or_else(|| PortError(text.to_owned()))
    }
}

/// Returns whether a name is a PCI address, `dddd:bb:dd.f` in hexadecimal.
fn is_address(text: &str) -> bool {
    let parts: Vec<_> = text.split([':', '.']).collect();
    let lengths: Vec<_> = parts.iter().map(|part| part.len()).collect();
    let is_hex = parts.iter().all(|part| part.chars().all(|digit| digit.is_ascii_hexdigit()));
    // Domains behind some bridges (VMD) have more than four digits.
    matches!(lengths[..], [4..=8, 2, 2, 1]) && is_hex && text.rfind(':') < text.find('.')
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            PciName::Slot(name) => write!(f, "/sys/bus/pci/slots/{name}"),
            PciName::Function(address) => f.write_str(address),
        }
    }
}

impl Port {
    pub(super) fn link(&self, sysfs: &Path) -> Link {
        let function = match self.function(sysfs) {
            Ok(function) => function,
            Err(why) => return Link::Unread(why),
        };
        let link = function.map_or(Ok(Link::Down), |function| pci::link(&function));
        link.unwrap_or_else(|error| Link::Unread(format!("{self}: {error}")))
    }

    /// Returns the function at the far end of the link; `None` when there is no function.
    fn function(&self, sysfs: &Path) -> Result<Option<PathBuf>, String> {
        let devices = sysfs.join("bus/pci/devices");
        let broken = |error| format!("{self}: {error}");
        let address = match &self.0 {
            PciName::Function(address) => address.clone(),
            PciName::Slot(name) => {
                let slot = sysfs.join("bus/pci/slots").join(name);
                let address = attribute(&slot, "address").map_err(broken)?;
                let address = address.ok_or_else(|| {
                    format!("{self} does not exist: see ls /sys/bus/pci/slots, and load the slot's driver")
                })?;
                // A slot's address has no function number; the first function shows the link.
                format!("{address}.0")
            }
        };
        let function = devices.join(address);
        if !function.exists() {
            return Ok(None);
        }
        let class = attribute(&function, "class").map_err(broken)?.unwrap_or_default();
        if class.starts_with("0x0604") {
            behind(&function).map_err(broken)
        } else {
            Ok(Some(function))
        }
    }
}

/// Returns the first function behind a bridge (class 06h, subclass 04h): sysfs shows it as a
/// directory beneath the bridge.
fn behind(bridge: &Path) -> std::io::Result<Option<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(bridge)? {
        let entry = entry?;
        if is_address(&entry.file_name().to_string_lossy()) {
            found.push(entry.path());
        }
    }
    Ok(found.into_iter().min())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn port(text: &str) -> Port {
        text.parse().unwrap()
    }

    #[test]
    fn only_slots_and_addresses_are_accepted() {
        for text in
            ["/sys/bus/pci/slots/3", "/sys/bus/pci/slots/0-1", "0000:41:00.0", "10000:01:00.1"]
        {
            assert_eq!(port(text).to_string(), text);
        }
        for text in [
            "",
            "3",
            "41:00.0",
            "/sys/bus/pci/slots/",
            "/sys/bus/pci/slots/..",
            "/sys/bus/pci/slots/a/b",
            "0000.41.00:0",
        ] {
            let error = text.parse::<Port>().unwrap_err().to_string();
            assert!(error.contains("use /sys/bus/pci/slots/NAME"), "{error}");
        }
    }

    /// Creates the files with which sysfs shows a root port with a slot and an endpoint in the slot.
    fn chassis(sysfs: &Path) -> PathBuf {
        let devices = sysfs.join("bus/pci/devices");
        let bridge = sysfs.join("devices/pci0000:00/0000:00:04.0");
        let endpoint = bridge.join("0000:03:00.0");
        fs::create_dir_all(&devices).unwrap();
        fs::create_dir_all(&endpoint).unwrap();
        fs::write(bridge.join("class"), "0x060400\n").unwrap();
        fs::write(endpoint.join("class"), "0x058000\n").unwrap();
        fs::write(endpoint.join("vendor"), "0x11f8\n").unwrap();
        symlink(&bridge, devices.join("0000:00:04.0")).unwrap();
        symlink(&endpoint, devices.join("0000:03:00.0")).unwrap();
        fs::create_dir_all(sysfs.join("bus/pci/slots/3")).unwrap();
        fs::write(sysfs.join("bus/pci/slots/3/address"), "0000:03:00\n").unwrap();
        endpoint
    }

    #[test]
    fn a_link_is_up_while_the_function_exists() {
        let sysfs = tempfile::tempdir().unwrap();
        let endpoint = chassis(sysfs.path());
        let ports = ["/sys/bus/pci/slots/3", "0000:03:00.0", "0000:00:04.0"].map(port);
        for port in &ports {
            assert_eq!(port.link(sysfs.path()), Link::Up { current: None, most: None }, "{port}");
        }
        #[expect(clippy::disallowed_methods, reason = "the test planted this tree")]
        fs::remove_dir_all(endpoint).unwrap();
        for port in &ports {
            assert_eq!(port.link(sysfs.path()), Link::Down, "{port}");
        }
    }

    /// EISDIR takes the place of any kernel error that says nothing about the link.
    #[test]
    fn a_link_that_cannot_be_read_is_unread_not_down() {
        let sysfs = tempfile::tempdir().unwrap();
        fs::create_dir(chassis(sysfs.path()).join("current_link_speed")).unwrap();
        for port in ["/sys/bus/pci/slots/3", "0000:03:00.0", "0000:00:04.0"].map(port) {
            let Link::Unread(why) = port.link(sysfs.path()) else { panic!("the link is known") };
            assert!(why.starts_with(&format!("{port}: ")), "{why}");
        }
    }

    #[test]
    fn a_missing_slot_is_unread_not_down() {
        let sysfs = tempfile::tempdir().unwrap();
        let Link::Unread(why) = port("/sys/bus/pci/slots/9").link(sysfs.path()) else {
            panic!("the link is known")
        };
        assert!(why.contains("/sys/bus/pci/slots/9 does not exist"), "{why}");
    }
}

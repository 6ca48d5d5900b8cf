use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{Machine, words};

/// An NVMe drive in a PCIe slot: an NVM subsystem in which the physical function can create namespaces.
///
/// With 17 virtual functions the drive is like a Rabbit's drive: the first function is for the rabbit, the others
/// are for the computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive {
    /// Bytes that all namespaces together may have.
    pub capacity: u64,
    /// Number of virtual functions; may be 0.
    pub virtual_functions: u16,
    /// Largest number of namespaces that may exist at the same time.
    pub namespaces: usize,
    /// Milliseconds that the drive takes to make, delete, attach or detach a namespace; it executes such commands one
    /// after another. If this is not 0, the drive must not lose its power during a command.
    pub latency: u32,
    /// The place of the drive, if the drive is in another machine.
    pub elsewhere: Option<Elsewhere>,
}

/// A drive of another machine, which this machine uses through a controller of the drive. Namespaces appear when the
/// other machine attaches them to the controller, and disappear when it detaches them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// Directory of the guest that has the drive.
    pub guest: PathBuf,
    /// Controller of the drive that this machine uses.
    pub controller: u16,
}

/// A disk that exists from the start, such as the operating system's, on a drive that cannot create namespaces. Several
/// guests may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedDisk {
    /// Existing file on the host.
    pub file: PathBuf,
    /// Serial number of the drive that has the disk.
    pub serial: String,
}

impl Drive {
    /// Describes a drive of `capacity` bytes with room for eight namespaces and no virtual functions, which
    /// executes commands without delay.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self { capacity, virtual_functions: 0, namespaces: 8, latency: 0, elsewhere: None }
    }

    /// Returns path and size of the files that are the media of the drive's namespaces.
    pub(super) fn media(
        &self,
        number: usize,
        directory: &Path,
    ) -> impl Iterator<Item = (PathBuf, u64)> {
        (0..self.namespaces).map(move |piece| (medium(directory, number, piece), self.capacity))
    }

    pub(super) fn arguments(&self, number: usize, directory: &Path) -> Vec<String> {
        let mut lines = vec![
            format!("-device pcie-root-port,id=slot{number},slot={number},chassis={number}"),
            format!("-device {}", self.subsystem(number, directory)),
            format!("-device {}", self.device(number)),
        ];
        let directory = self.elsewhere.as_ref().map_or(directory, |elsewhere| &elsewhere.guest);
        for piece in 0..self.namespaces {
            let file = medium(directory, number, piece);
            lines.push(format!(
                "-drive if=none,id=medium{number}-{piece},file={},format=raw,cache=unsafe,discard=unmap,file.locking=off",
                file.display()
            ));
            lines.push(format!(
                "-device nvme-ns,drive=medium{number}-{piece},bus=drive{number},pool=on,share-rw=on"
            ));
        }
        words(&lines).collect()
    }

    fn subsystem(&self, number: usize, directory: &Path) -> String {
        let common = format!("nvme-subsys,id=subsystem{number},nqn=drive{number}");
        match &self.elsewhere {
            None => format!(
                "{common},tnvmcap={},latency={},ledger={}",
                self.capacity,
                self.latency,
                ledger(directory, number).display()
            ),
            Some(Elsewhere { guest, controller }) => {
                format!("{common},view={controller},ledger={}", ledger(guest, number).display())
            }
        }
    }

    /// Returns the drive's physical function as a device of the emulator's command line. The same device is plugged in
    /// again after the drive was pulled.
    #[must_use]
    pub fn device(&self, number: usize) -> String {
        // Each virtual function and the physical function get two queues and two interrupts.
        let flexible = u32::from(self.virtual_functions) * 2;
        let all = flexible + 2;
        let mut device = format!(
            "nvme,id=drive{number},serial={},subsys=subsystem{number},bus=slot{number}",
            Machine::serial(number)
        );
        if self.virtual_functions > 0 {
            device.push_str(&format!(
                ",max_ioqpairs={all},msix_qsize={all},sriov_max_vfs={},sriov_vq_flexible={flexible},sriov_vi_flexible={flexible}",
                self.virtual_functions
            ));
        }
        device
    }
}

impl SharedDisk {
    pub(super) fn arguments(&self, number: usize) -> Vec<String> {
        words(&[
            format!(
                "-drive if=none,id=shared{number},file={},format=raw,cache=unsafe,file.locking=off",
                self.file.display()
            ),
            format!("-device nvme,id=shared-drive{number},serial={}", self.serial),
            format!(
                "-device nvme-ns,drive=shared{number},bus=shared-drive{number},nsid=1,share-rw=on"
            ),
        ])
        .collect()
    }
}

fn medium(directory: &Path, drive: usize, piece: usize) -> PathBuf {
    directory.join(format!("drive{drive}-{piece}.img"))
}

/// Returns the path of the file in which the emulated drive records its namespaces and their attachments, which a drive
/// keeps while its machine is off.
fn ledger(directory: &Path, drive: usize) -> PathBuf {
    directory.join(format!("drive{drive}.ledger"))
}

/// Converts a device from the form of the command line to the form of QMP.
pub(in crate::lab) fn properties(device: &str) -> Value {
    let (driver, properties) = device.split_once(',').unwrap_or((device, ""));
    let properties = properties.split(',').filter_map(|property| property.split_once('='));
    [("driver", driver)]
        .into_iter()
        .chain(properties)
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rabbits_drive_has_a_physical_function_and_seventeen_virtual_functions() {
        let machine = Machine::rabbit(1);
        assert_eq!(
            machine.drives[0].device(0),
            "nvme,id=drive0,serial=DRIVE0,subsys=subsystem0,bus=slot0,max_ioqpairs=36,msix_qsize=36,\
             sriov_max_vfs=17,sriov_vq_flexible=34,sriov_vi_flexible=34"
        );
    }

    #[test]
    fn the_device_of_a_drive_without_virtual_functions_has_no_arguments_for_them() {
        let device = Drive::new(1 << 30).device(3);
        assert_eq!(device, "nvme,id=drive3,serial=DRIVE3,subsys=subsystem3,bus=slot3");
        assert_eq!(
            properties(&device),
            serde_json::json!({
                "driver": "nvme", "id": "drive3", "serial": "DRIVE3", "subsys": "subsystem3", "bus": "slot3",
            })
        );
    }
}

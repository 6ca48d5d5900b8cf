mod drive;

use std::path::{Path, PathBuf};

pub(super) use drive::properties;
pub use drive::{Drive, Elsewhere, SharedDisk};

use super::{Bench, assets::Assets};

/// Bytes of a gibibyte.
pub const GIB: u64 = 1 << 30;

/// The network between guests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Multicast port on the host's loopback; guests with the same port receive each other's packets.
    pub port: u16,
    /// Last number of the address 192.168.77.x.
    pub host: u8,
}

/// The parts of which a guest is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Host name of the guest.
    pub name: String,
    /// Size of the memory in MiB.
    pub memory: u32,
    /// Number of virtual processors.
    pub processors: u8,
    /// Drives that only this guest sees, or views of another guest's drives.
    pub drives: Vec<Drive>,
    /// Disks that other guests see too.
    pub shared: Vec<SharedDisk>,
    /// The network, if the guest has one.
    pub network: Option<Network>,
    /// Whether systemd is the guest's first process, as on real nodes. Without systemd the guest boots sooner.
    pub systemd: bool,
}

impl Machine {
    /// Describes a computer without drives.
    #[must_use]
    pub fn plain(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            memory: 1024,
            processors: 2,
            drives: Vec::new(),
            shared: Vec::new(),
            network: None,
            systemd: false,
        }
    }

    /// Describes a computer with drives of 2 GiB without virtual functions. Such a computer boots sooner, for scenarios
    /// that need only one controller per drive.
    #[must_use]
    pub fn with_drives(name: &str, drives: usize) -> Self {
        Self { drives: vec![Drive::new(2 * GIB); drives], ..Self::plain(name) }
    }

    /// Describes a rabbit: drives of 2 GiB with 17 virtual functions each.
    #[must_use]
    pub fn rabbit(drives: usize) -> Self {
        let drive = Drive { virtual_functions: 17, ..Drive::new(2 * GIB) };
        Self { drives: vec![drive; drives], ..Self::plain("rabbit") }
    }

    /// Describes compute `index` in the chassis of a rabbit on the same bench. The compute sees each of the rabbit's
    /// drives through a virtual function. The rabbit uses the first virtual function, compute 0 the second.
    #[must_use]
    pub fn compute(index: u16, bench: &Bench, rabbit: &Self) -> Self {
        let guest = bench.directory().join(&rabbit.name);
        let shared_drive = |drive: &Drive| Drive {
            virtual_functions: 0,
            elsewhere: Some(Elsewhere { guest: guest.clone(), controller: index + 2 }),
            ..drive.clone()
        };
        let drives = rabbit.drives.iter().map(shared_drive).collect();
        Self { drives, ..Self::plain(&format!("compute-{index}")) }
    }

    /// Returns the NQN of a drive's subsystem.
    #[must_use]
    pub fn subsystem(drive: usize) -> String {
        format!("nqn.2019-08.org.qemu:drive{drive}")
    }

    /// Returns the serial number of a drive.
    #[must_use]
    pub fn serial(drive: usize) -> String {
        format!("DRIVE{drive}")
    }

    /// Returns path and size of the files beneath `directory` that are the media of the drives' namespaces.
    #[must_use]
    pub fn media(&self, directory: &Path) -> Vec<(PathBuf, u64)> {
        let own = self.drives.iter().enumerate().filter(|(_, drive)| drive.elsewhere.is_none());
        own.flat_map(|(number, drive)| drive.media(number, directory)).collect()
    }

    /// Returns the arguments of the emulator. `directory` belongs to the guest; `programs` has the host's programs that
    /// the guest may run.
    #[must_use]
    pub fn arguments(&self, assets: &Assets, directory: &Path, programs: &Path) -> Vec<String> {
        let mut arguments = self.board(assets);
        arguments.extend(exchange(directory, programs));
        for (number, drive) in self.drives.iter().enumerate() {
            arguments.extend(drive.arguments(number, directory));
        }
        for (number, disk) in self.shared.iter().enumerate() {
            arguments.extend(disk.arguments(number));
        }
        if let Some(network) = &self.network {
            arguments.extend(network.arguments());
        }
        arguments
    }

    fn board(&self, assets: &Assets) -> Vec<String> {
        let address =
            self.network.as_ref().map(|network| format!(" lab.address={}", network.address()));
        words(&[
            format!("-L {}", assets.firmware().display()),
            "-nodefaults".to_owned(),
            "-display none".to_owned(),
            "-accel tcg,thread=multi".to_owned(),
            "-machine q35".to_owned(),
            "-cpu max".to_owned(),
            format!("-m {}", self.memory),
            format!("-smp {}", self.processors),
            // PCIe slots announce plugged and pulled devices as hardware does, without ACPI.
            "-global ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off".to_owned(),
            "-action reboot=reset".to_owned(),
            format!("-kernel {}", assets.kernel().display()),
            format!("-initrd {}", assets.initramfs().display()),
            format!(
                "-append console=ttyS0 quiet loglevel=4 panic=-1 lab.name={}{}{}",
                self.name,
                address.unwrap_or_default(),
                if self.systemd { " lab.init=systemd" } else { "" }
            ),
            format!(
                "-drive if=none,id=root,file={},format=raw,readonly=on,file.locking=off",
                assets.root().display()
            ),
            "-device virtio-blk-pci,drive=root".to_owned(),
            "-object rng-random,id=entropy,filename=/dev/urandom".to_owned(),
            "-device virtio-rng-pci,rng=entropy".to_owned(),
        ])
        .collect()
    }
}

impl Network {
    /// Returns the guest's address in this network.
    #[must_use]
    pub fn address(&self) -> String {
        format!("192.168.77.{}", self.host)
    }

    fn arguments(&self) -> Vec<String> {
        words(&[
            format!("-netdev socket,id=network,mcast=230.77.0.1:{},localaddr=127.0.0.1", self.port),
            format!(
                "-device virtio-net-pci,netdev=network,mac=52:54:00:77:00:{:02x},romfile=",
                self.host
            ),
        ])
        .collect()
    }
}

/// Returns arguments for the connections between guest and harness: console, port of the shell, QMP, and directories.
fn exchange(directory: &Path, programs: &Path) -> Vec<String> {
    let own = directory.display();
    let shared = shared_directory(directory);
    words(&[
        // The console's output is appended, so that it survives losses of power.
        format!("-chardev file,id=console,path={own}/console.log,append=on"),
        "-serial chardev:console".to_owned(),
        format!("-qmp unix:{own}/qmp.sock,server=on,wait=off"),
        "-device virtio-serial-pci".to_owned(),
        format!("-chardev socket,id=shell,path={own}/shell.sock,server=on,wait=off"),
        "-device virtserialport,chardev=shell,name=lab".to_owned(),
        format!("-fsdev local,id=exchange,path={own}/exchange,security_model=none"),
        "-device virtio-9p-pci,fsdev=exchange,mount_tag=exchange".to_owned(),
        format!(
            "-fsdev local,id=programs,path={},security_model=none,readonly=on",
            programs.display()
        ),
        "-device virtio-9p-pci,fsdev=programs,mount_tag=programs".to_owned(),
        format!("-fsdev local,id=shared,path={},security_model=none", shared.display()),
        "-device virtio-9p-pci,fsdev=shared,mount_tag=shared".to_owned(),
    ])
    .collect()
}

/// Returns the directory that all guests share under the tag `shared`. `directory` is that of one guest.
pub(super) fn shared_directory(directory: &Path) -> PathBuf {
    directory.with_file_name("shared")
}

/// Splits each line into an option and its value; the value may have spaces.
fn words(lines: &[impl AsRef<str>]) -> impl Iterator<Item = String> {
    lines.iter().flat_map(|line| line.as_ref().splitn(2, ' ')).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_namespace_has_a_medium_as_large_as_the_drive() {
        let media = Machine::rabbit(2).media(Path::new("/d"));
        assert_eq!(media.len(), 2 * 8);
        assert!(media.iter().all(|(_, bytes)| *bytes == 2 * GIB));
        assert_eq!(media[8].0, Path::new("/d/drive1-0.img"));
    }

    #[test]
    fn a_directory_may_have_spaces_in_its_name() {
        let assets = Assets::new("/the lab/qemu".into(), "/the lab/guest".into());
        let machine = Machine::plain("compute-1");
        let arguments = machine.arguments(&assets, Path::new("/a b"), Path::new("/programs"));
        assert!(arguments.contains(&"/the lab/guest/vmlinux".to_owned()), "{arguments:?}");
        assert!(
            arguments.contains(&"file,id=console,path=/a b/console.log,append=on".to_owned()),
            "{arguments:?}"
        );
    }
}

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};

/// Environment variable with the directory of the lab's QEMU.
const QEMU: &str = "WARREN_LAB_QEMU";
/// Environment variable with the directory of the files from which guests boot.
const GUEST: &str = "WARREN_LAB_GUEST";
/// Environment variable with the directory of ZFS, which is built only for scenarios that need it.
const ZFS: &str = "WARREN_LAB_ZFS";

/// Environment variable with the directory of Kubernetes' programs, which are built only for scenarios that need them.
const KUBERNETES: &str = "WARREN_LAB_KUBERNETES";

/// Environment variable with the directory from which the image of podhelper is built. podhelper is the program that
/// starts MPI ranks in containers; only some scenarios need it.
const PODHELPER: &str = "WARREN_LAB_PODHELPER";

/// Files that `tests/lab/prepare` made.
#[derive(Debug, Clone)]
pub struct Assets {
    qemu: PathBuf,
    guest: PathBuf,
    zfs: Option<PathBuf>,
    kubernetes: Option<PathBuf>,
    podhelper: Option<PathBuf>,
}

impl Assets {
    /// Finds the files in the directories that the environment variables name.
    ///
    /// # Errors
    /// When a required environment variable is not set, or a file is missing.
    pub fn from_environment() -> anyhow::Result<Self> {
        let directory_in =
            |name| env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let assets = Self {
            zfs: directory_in(ZFS),
            kubernetes: directory_in(KUBERNETES),
            podhelper: directory_in(PODHELPER),
            ..Self::new(directory(QEMU)?, directory(GUEST)?)
        };
        for file in [assets.qemu(), assets.kernel(), assets.initramfs(), assets.root()] {
            ensure!(
                file.is_file(),
                "{} is missing: run `make lab`, which makes it",
                file.display()
            );
        }
        Ok(assets)
    }

    /// Returns the files in these two directories, without ZFS, Kubernetes and podhelper.
    #[must_use]
    pub fn new(qemu: PathBuf, guest: PathBuf) -> Self {
        Self { qemu, guest, zfs: None, kubernetes: None, podhelper: None }
    }

    /// Returns the path of the emulator.
    #[must_use]
    pub fn qemu(&self) -> PathBuf {
        self.qemu.join("qemu-system-x86_64")
    }

    /// Returns the directory of the emulator's firmware.
    #[must_use]
    pub fn firmware(&self) -> PathBuf {
        self.qemu.join("firmware")
    }

    /// Returns the path of the kernel, unpacked.
    #[must_use]
    pub fn kernel(&self) -> PathBuf {
        self.guest.join("vmlinux")
    }

    /// Returns the path of the initramfs, which finds the root disk.
    #[must_use]
    pub fn initramfs(&self) -> PathBuf {
        self.guest.join("initrd.gz")
    }

    /// Returns the path of the root disk, which all guests share.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.guest.join("root.ext4")
    }

    /// Returns the path of an archive with ZFS's modules, tools and libraries, which is unpacked in a guest.
    ///
    /// # Errors
    /// When the environment does not name the directory of ZFS.
    pub fn zfs(&self) -> anyhow::Result<PathBuf> {
        let directory = self.zfs.as_ref();
        let directory = directory.with_context(|| {
            format!("{ZFS} is not set: run `make lab SCENARIO=zpools`, which sets it")
        })?;
        Ok(directory.join("zfs.tar"))
    }

    /// Returns the directory of kubelet, of the programs of a control plane, and of kubectl.
    ///
    /// # Errors
    /// When the environment does not name the directory.
    pub fn kubernetes(&self) -> anyhow::Result<&Path> {
        self.kubernetes.as_deref().with_context(|| {
            format!(
                "{KUBERNETES} is not set: run `make lab SCENARIO=kubernetes-job`, which sets it"
            )
        })
    }

    /// Returns the directory with the program podhelper and the Containerfile of its image.
    ///
    /// # Errors
    /// When the environment does not name the directory.
    pub fn podhelper(&self) -> anyhow::Result<&Path> {
        self.podhelper.as_deref().with_context(|| {
            format!("{PODHELPER} is not set: run `make lab SCENARIO=kubernetes-mpi`, which sets it")
        })
    }

    /// Returns the release of the kernel, as `uname -r` prints it.
    ///
    /// # Errors
    /// When the file with the release cannot be read.
    pub fn kernel_release(&self) -> anyhow::Result<String> {
        let release =
            fs::read_to_string(self.guest.join("kernel-version")).context("read the release")?;
        Ok(release.trim_end().to_owned())
    }
}

fn directory(variable: &str) -> anyhow::Result<PathBuf> {
    env::var_os(variable)
        .map(PathBuf::from)
        .with_context(|| format!("{variable} is not set: run `make lab`, which sets it"))
}

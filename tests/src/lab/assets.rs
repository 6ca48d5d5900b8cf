use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};

/// Variable that names the directory of the lab's QEMU.
const QEMU: &str = "WARREN_LAB_QEMU";
/// Variable that names the directory of what guests boot.
const GUEST: &str = "WARREN_LAB_GUEST";
/// Variable that names the directory of ZFS, which is made only for those who need it.
const ZFS: &str = "WARREN_LAB_ZFS";

/// Variable that names the directory of Kubernetes' programs, likewise.
const KUBERNETES: &str = "WARREN_LAB_KUBERNETES";

/// Variable that names the directory of podhelper's image, likewise.
const PODHELPER: &str = "WARREN_LAB_PODHELPER";

/// What `tests/lab/prepare` made.
#[derive(Debug, Clone)]
pub struct Assets {
    qemu: PathBuf,
    guest: PathBuf,
    zfs: Option<PathBuf>,
    kubernetes: Option<PathBuf>,
    podhelper: Option<PathBuf>,
}

impl Assets {
    /// Those that the environment names.
    ///
    /// # Errors
    /// When it names none, or something is missing there.
    pub fn given() -> anyhow::Result<Self> {
        let asked = |name| env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let assets = Self {
            zfs: asked(ZFS),
            kubernetes: asked(KUBERNETES),
            podhelper: asked(PODHELPER),
            ..Self::of(directory(QEMU)?, directory(GUEST)?)
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

    /// Those in two directories, and no others.
    #[must_use]
    pub fn of(qemu: PathBuf, guest: PathBuf) -> Self {
        Self { qemu, guest, zfs: None, kubernetes: None, podhelper: None }
    }

    /// The emulator.
    #[must_use]
    pub fn qemu(&self) -> PathBuf {
        self.qemu.join("qemu-system-x86_64")
    }

    /// Its firmware.
    #[must_use]
    pub fn firmware(&self) -> PathBuf {
        self.qemu.join("firmware")
    }

    /// The kernel, unpacked.
    #[must_use]
    pub fn kernel(&self) -> PathBuf {
        self.guest.join("vmlinux")
    }

    /// What finds the root disk.
    #[must_use]
    pub fn initramfs(&self) -> PathBuf {
        self.guest.join("initrd.gz")
    }

    /// The root disk, which all guests share.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.guest.join("root.ext4")
    }

    /// ZFS for a guest: modules, tools and libraries, to be unpacked there.
    ///
    /// # Errors
    /// When the environment does not name it.
    pub fn zfs(&self) -> anyhow::Result<PathBuf> {
        let directory = self.zfs.as_ref();
        let directory = directory.with_context(|| {
            format!("{ZFS} is not set: run `make lab SCENARIO=zpools`, which sets it")
        })?;
        Ok(directory.join("zfs.tar"))
    }

    /// Directory of kubelet, of the programs of a control plane, and of kubectl.
    ///
    /// # Errors
    /// When the environment does not name it.
    pub fn kubernetes(&self) -> anyhow::Result<&Path> {
        self.kubernetes.as_deref().with_context(|| {
            format!(
                "{KUBERNETES} is not set: run `make lab SCENARIO=kubernetes-job`, which sets it"
            )
        })
    }

    /// Directory of podhelper as administrators build it, and what its image is built by.
    ///
    /// # Errors
    /// When the environment does not name it.
    pub fn podhelper(&self) -> anyhow::Result<&Path> {
        self.podhelper.as_deref().with_context(|| {
            format!("{PODHELPER} is not set: run `make lab SCENARIO=kubernetes-mpi`, which sets it")
        })
    }

    /// Release of the kernel, as `uname -r` has it.
    ///
    /// # Errors
    /// When it was not recorded.
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

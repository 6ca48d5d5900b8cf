//! A chassis on loop devices, cleaned away even when a test panics.
#![expect(unreachable_pub, reason = "a module of several test binaries")]

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use storage::{
    Host, LinuxHost,
    desired::{AllowedRoots, FileSystemId, MountPoint},
    linux::{DriveConfig, LinuxConfig},
    observed::Namespace,
};
use tempfile::TempDir;

use crate::{
    by_hand::{must, run},
    scenarios::{World, node},
};

/// Runs `story` in a lab of its own, where there can be one.
pub fn with_lab(story: impl FnOnce(&Lab)) {
    if gate::loop_devices() {
        story(&Lab::new());
    }
}

pub struct Lab {
    directory: TempDir,
    roots: AllowedRoots,
    rabbit: Arc<LinuxHost>,
    pub command_deadline: Duration,
}

impl Lab {
    pub fn new() -> Self {
        Self::with_deadline(Duration::from_secs(60))
    }

    pub fn with_deadline(command_deadline: Duration) -> Self {
        let directory = TempDir::with_prefix("warren-loop-").unwrap();
        Self::on(directory, 4, 16 << 30, command_deadline)
    }

    pub fn on(directory: TempDir, drives: u16, capacity: u64, command_deadline: Duration) -> Self {
        let roots =
            AllowedRoots::new([directory.path().join("mnt"), directory.path().join("temp")])
                .unwrap();
        let rabbit = host(directory.path(), &roots, "rabbit-1", drives, capacity, command_deadline);
        Self { directory, roots, rabbit, command_deadline }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn roots(&self) -> &AllowedRoots {
        &self.roots
    }

    pub fn device(&self, namespace: &Namespace) -> String {
        namespace.device.as_ref().unwrap().to_str().unwrap().to_owned()
    }
}

fn host(
    directory: &Path,
    roots: &AllowedRoots,
    name: &str,
    drives: u16,
    drive_capacity: u64,
    command_deadline: Duration,
) -> Arc<LinuxHost> {
    let drives = DriveConfig::File {
        pool: directory.join("pool"),
        node: node(name),
        drives,
        drive_capacity,
    };
    let config = LinuxConfig {
        drives,
        roots: roots.clone(),
        state: directory.join("state").join(name),
        command_deadline,
        mount_deadline: Duration::from_secs(60),
    };
    Arc::new(LinuxHost::new(config).unwrap())
}

impl World for Lab {
    fn rabbit(&self) -> Arc<dyn Host> {
        self.rabbit.clone()
    }

    fn compute(&self, name: &str) -> Arc<dyn Host> {
        host(self.path(), &self.roots, name, 0, 0, self.command_deadline)
    }

    fn point(&self, below: &str) -> MountPoint {
        MountPoint::parse(self.path().join("mnt").join(below).to_str().unwrap(), &self.roots)
            .unwrap()
    }

    fn temporary(&self, below: &str) -> MountPoint {
        MountPoint::parse(self.path().join("temp").join(below).to_str().unwrap(), &self.roots)
            .unwrap()
    }

    fn plant_mount(&self, at: &MountPoint) {
        fs::create_dir_all(at.path()).unwrap();
        must("mount", &["-t", "tmpfs", "tmpfs", at.path().to_str().unwrap()]);
    }

    fn plant_link(&self, at: &MountPoint, text: &str) {
        fs::create_dir_all(at.path().parent().unwrap()).unwrap();
        symlink(text, at.path()).unwrap();
    }

    fn plant_file(&self, at: &MountPoint) {
        fs::create_dir_all(at.path().parent().unwrap()).unwrap();
        fs::write(at.path(), "somebody's").unwrap();
    }

    fn plant_ext4(&self, namespace: &Namespace) {
        must("mkfs.ext4", &["-q", "-F", &self.device(namespace)]);
    }

    fn plant_half_made(&self, namespace: &Namespace, id: FileSystemId) {
        let device = self.device(namespace);
        must("mkfs.xfs", &["-q", "-m", &format!("uuid={id}"), &device]);
        must(
            "sh",
            &[
                "-c",
                &format!(
                    "printf '\\001' | dd of={device} bs=1 seek=126 conv=notrunc,fsync status=none"
                ),
            ],
        );
    }

    fn label(&self) -> String {
        self.path().display().to_string()
    }

    fn lose_records(&self) {
        must(
            "find",
            &[self.path().join("pool").to_str().unwrap(), "-name", "owner.json", "-delete"],
        );
    }

    fn reboot(&self) {
        sweep(self.path());
    }

    fn foreign(&self) -> String {
        let below = self.path().join("mnt");
        let tmpfs = must(
            "sh",
            &[
                "-c",
                &format!("grep ' tmpfs ' /proc/self/mounts | grep {} || true", below.display()),
            ],
        );
        let files = must(
            "sh",
            &[
                "-c",
                &format!(
                    "mkdir -p {0}; find {0} -xdev -type f -size +0 -o -xdev -type l -lname '/*' | sort",
                    below.display()
                ),
            ],
        );
        let mut text = format!("{tmpfs}\n{files}");
        for data in glob(self.path()) {
            let data_path = data.to_str().unwrap();
            // What is no file system is LVM's, and ours.
            let asked = ["-p", "-o", "value", "-s", "TYPE", "-u", "filesystem", data_path];
            let kind = String::from_utf8(run("blkid", &asked).stdout).unwrap();
            let kind = kind.trim();
            if !kind.is_empty() && kind != "xfs" {
                text.push_str(&format!("\n{} {kind}", data.display()));
            }
        }
        text
    }
}

/// Namespaces' files that carry a signature.
fn glob(directory: &Path) -> Vec<PathBuf> {
    let found =
        must("sh", &["-c", &format!("find {}/pool -name data | sort", directory.display())]);
    let signed = |path: &PathBuf| run("blkid", &["-p", path.to_str().unwrap()]).status.success();
    found.lines().map(PathBuf::from).filter(signed).collect()
}

impl Drop for Lab {
    fn drop(&mut self) {
        sweep(self.path());
    }
}

/// Unmounts and detaches everything beneath `directory`.
pub fn sweep(directory: &Path) {
    let here = directory.to_str().unwrap();
    unmount_beneath(here);
    detach_beneath(here);
    // A pool may be a mount itself, busy until its loop devices are gone.
    unmount_beneath(here);
}

fn unmount_beneath(here: &str) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for point in mounts.lines().rev().filter_map(|line| line.split(' ').nth(1)) {
        if point.starts_with(here) {
            run("umount", &[&point.replace(r"\040", " ").replace(r"\134", r"\")]);
        }
    }
}

fn detach_beneath(here: &str) {
    let loops = run("losetup", &["--list", "--noheadings", "--raw", "--output", "NAME,BACK-FILE"]);
    for line in String::from_utf8_lossy(&loops.stdout).lines() {
        if let Some((device, file)) = line.split_once(' ')
            && file.starts_with(here)
        {
            run("losetup", &["-d", device]);
        }
    }
}

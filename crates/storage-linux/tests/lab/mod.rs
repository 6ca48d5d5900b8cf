//! A lab: a simulated chassis on loop devices of this machine. A lab is removed even when its test panics.
#![expect(unreachable_pub, reason = "a module of several test binaries")]

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Child,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use storage::{
    Host,
    desired::{AllowedRoots, FileSystemId, MountPoint},
    observed::Namespace,
};
use storage_linux::{DriveConfig, LinuxConfig, LinuxHost, LustreUnmount};
use tempfile::TempDir;

use crate::{
    by_hand::{must, run, start},
    scenarios::{World, node},
};

/// Each test holds this lock for reading, or for writing if no other lab may exist meanwhile: a process that enters a
/// new mount namespace keeps copies of the mounts of all labs.
static NAMESPACE: RwLock<()> = RwLock::new(());

/// Runs `story` in a new lab, if the tests may use loop devices on this machine.
pub fn with_lab(story: impl FnOnce(&Lab)) {
    let _shared = NAMESPACE.read().unwrap_or_else(PoisonError::into_inner);
    if gate::loop_devices() {
        story(&Lab::new());
    }
}

/// Runs `story` while no other lab of this test program has mounts.
pub fn with_only_lab(story: impl FnOnce(&Lab)) {
    let _alone = NAMESPACE.write().unwrap_or_else(PoisonError::into_inner);
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
        lustre_unmount: LustreUnmount::default(),
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

    fn keep_elsewhere<'a>(&'a self, at: &MountPoint) -> Box<dyn std::fmt::Debug + 'a> {
        let at = at.path();
        Box::new(Keeper::start(self, "-Urm", &format!("cd {}", at.display())))
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
            // Ask only for file systems: all other signatures belong to LVM and to this test.
            let arguments = ["-p", "-o", "value", "-s", "TYPE", "-u", "filesystem", data_path];
            let kind = String::from_utf8(run("blkid", &arguments).stdout).unwrap();
            let kind = kind.trim();
            if !kind.is_empty() && kind != "xfs" {
                text.push_str(&format!("\n{} {kind}", data.display()));
            }
        }
        text
    }
}

/// Returns the files of those namespaces that have a signature.
fn glob(directory: &Path) -> Vec<PathBuf> {
    let found =
        must("sh", &["-c", &format!("find {}/pool -name data | sort", directory.display())]);
    let signed = |path: &PathBuf| run("blkid", &["-p", path.to_str().unwrap()]).status.success();
    found.lines().map(PathBuf::from).filter(signed).collect()
}

/// A process in its own namespaces; it ends when this value is dropped.
#[derive(Debug)]
pub struct Keeper(Child);

impl Keeper {
    /// Runs `script` in namespaces made with these flags of unshare(1), and keeps the process running until the drop.
    /// The process has copies of the mounts of this lab only.
    pub fn start(lab: &Lab, flags: &str, script: &str) -> Self {
        let here = lab.path().display();
        let others = "cut -d' ' -f5 /proc/self/mountinfo | grep /warren-loop-";
        let alone = format!("for at in $({others} | grep -v {here}); do umount $at; done");
        let stay = Self::staying(script);
        let script = format!("{alone}; exec unshare {flags} sh -c '{stay}'");
        Self::ready(start("unshare", &["-m", "sh", "-c", &script]))
    }

    /// Runs `script` in our own mount namespace, and keeps the process running until the drop.
    pub fn here(script: &str) -> Self {
        Self::ready(start("sh", &["-c", &Self::staying(script)]))
    }

    fn staying(script: &str) -> String {
        format!("{script} && echo ready && read line")
    }

    fn ready(mut child: Child) -> Self {
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    pub fn pid(&self) -> i32 {
        self.0.id().try_into().unwrap()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // The process ends when its stdin reaches end of file.
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
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
    // A pool's directory may itself be a mount, which is busy until the loop devices on it are gone.
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

//! Tests real mounts without root: the test program starts itself again in its own user and mount namespace.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[expect(dead_code, reason = "nothing is talked to here")]
mod by_hand;
#[expect(dead_code, reason = "only tests that need no drives use it")]
mod scenarios;

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::Path,
    sync::Arc,
    time::Duration,
};

use by_hand::{must, run};
use scenarios::{World, chain, command, converge, settle, uid};
use storage::{
    Desired, Host, Step,
    desired::{
        AllowedRoots, FileSystemId, FileSystemKind, HookScope, Mount, MountPoint, MountSource,
        Owner,
    },
    observed::Namespace,
};
use storage_linux::{DriveConfig, LinuxConfig, LinuxHost, LustreUnmount};
use tempfile::TempDir;

#[test]
fn mounts_work_without_root_in_a_user_namespace() {
    let missing = (!run("unshare", &["-Urm", "true"]).status.success())
        .then_some("this kernel gives no user namespaces (user.max_user_namespaces)");
    if !gate::open("namespace", missing) {
        return;
    }
    let me = std::env::current_exe().unwrap();
    let output = run("unshare", &["-Urm", me.to_str().unwrap(), "--ignored", "inside::"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("running 0 tests"), "{text}");
}

/// A node without drives, in its own mount namespace; its mounts end with that namespace.
struct Cell {
    directory: TempDir,
    roots: AllowedRoots,
    host: Arc<LinuxHost>,
}

impl Cell {
    fn new() -> Self {
        let directory = TempDir::with_prefix("warren-namespace-").unwrap();
        let roots = AllowedRoots::new([directory.path().join("mnt")]).unwrap();
        let host = LinuxHost::new(LinuxConfig {
            drives: DriveConfig::NvmeNamespaces,
            roots: roots.clone(),
            state: directory.path().join("state"),
            command_deadline: Duration::from_secs(60),
            mount_deadline: Duration::from_secs(60),
            lustre_unmount: LustreUnmount::default(),
        });
        Self { roots, host: Arc::new(host.unwrap()), directory }
    }

    fn bind(&self, from: &MountPoint, below: &str) -> Mount {
        Mount {
            scope: HookScope::mount(uid(3), &self.point(below)),
            target: self.point(below),
            kind: FileSystemKind::Xfs,
            source: MountSource::Bind(from.clone()),
            mount: command("-o bind $DEVICE $MOUNT_PATH"),
            unmount: command("$MOUNT_PATH"),
            owner: Some(Owner { uid: 0, gid: 0 }),
            file: None,
            hooks: Vec::new(),
        }
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        run(
            "sh",
            &[
                "-c",
                &format!(
                    "grep -o ' {}[^ ]*' /proc/self/mounts | tac | xargs -r umount",
                    self.directory.path().display()
                ),
            ],
        );
    }
}

impl World for Cell {
    fn rabbit(&self) -> Arc<dyn Host> {
        self.host.clone()
    }

    fn compute(&self, _: &str) -> Arc<dyn Host> {
        self.host.clone()
    }

    fn point(&self, below: &str) -> MountPoint {
        MountPoint::parse(
            self.directory.path().join("mnt").join(below).to_str().unwrap(),
            &self.roots,
        )
        .unwrap()
    }

    fn temporary(&self, below: &str) -> MountPoint {
        self.point(below)
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

    fn plant_ext4(&self, _: &Namespace) {
        panic!("there are no drives here");
    }

    fn keep_elsewhere<'a>(&'a self, _: &MountPoint) -> Box<dyn std::fmt::Debug + 'a> {
        panic!("there are no drives here");
    }

    fn plant_half_made(&self, _: &Namespace, _: FileSystemId) {
        panic!("there are no drives here");
    }

    fn lose_records(&self) {
        panic!("there are no drives here");
    }

    fn reboot(&self) {
        panic!("a mount namespace does not restart");
    }

    fn label(&self) -> String {
        "rabbit-1".into()
    }

    fn foreign(&self) -> String {
        let here = self.directory.path().display();
        must(
            "sh",
            &["-c", &format!("grep -F {here} /proc/self/mountinfo; find {here} -type f | sort")],
        )
    }
}

mod inside {
    use super::*;

    #[test]
    #[ignore = "started by mounts_work_without_root_in_a_user_namespace"]
    fn index_trees_are_made_and_rejected_without_root() {
        scenarios::trees::life(&Cell::new());
        scenarios::trees::planted(&Cell::new());
        scenarios::trees::root_in_the_way(&Cell::new());
    }

    #[test]
    #[ignore = "started by mounts_work_without_root_in_a_user_namespace"]
    fn a_bind_mount_is_made_and_removed_without_root() {
        let cell = Cell::new();
        let first = cell.point("first");
        cell.plant_mount(&first);
        fs::write(first.path().join("file"), "data").unwrap();
        let second = cell.bind(&first, "tree/node-0");
        settle(&cell.rabbit(), &Desired::Mounted(second.clone()));
        assert_eq!(fs::read(second.target.path().join("file")).unwrap(), b"data");
        settle(&cell.rabbit(), &Desired::Unmounted(second.clone()));
        assert!(!second.target.path().parent().unwrap().exists());
        assert!(first.path().join("file").exists());
    }

    #[test]
    #[ignore = "started by mounts_work_without_root_in_a_user_namespace"]
    fn a_mount_of_unproved_ownership_is_not_unmounted() {
        let cell = Cell::new();
        let first = cell.point("first");
        cell.plant_mount(&first);
        let second = cell.bind(&first, "second");
        settle(&cell.rabbit(), &Desired::Mounted(second.clone()));
        must("umount", &[first.path().to_str().unwrap()]);
        let before = cell.foreign();
        assert!(settle(&cell.rabbit(), &Desired::Unmounted(second)).is_empty());
        assert!(settle(&cell.rabbit(), &Desired::OnlyMounts(vec![])).is_empty());
        assert_eq!(cell.foreign(), before);
    }

    #[test]
    #[ignore = "started by mounts_work_without_root_in_a_user_namespace"]
    fn a_busy_mount_names_its_holders() {
        let cell = Cell::new();
        let first = cell.point("first");
        cell.plant_mount(&first);
        let second = cell.bind(&first, "second");
        settle(&cell.rabbit(), &Desired::Mounted(second.clone()));
        fs::create_dir(second.target.path().join("deeper")).unwrap();
        must(
            "mount",
            &["-t", "tmpfs", "tmpfs", second.target.path().join("deeper").to_str().unwrap()],
        );
        let error = converge(&cell.rabbit(), &Desired::Unmounted(second.clone())).unwrap_err();
        assert!(
            chain(&error).contains(&format!("held by mount {}/deeper", second.target)),
            "{}",
            chain(&error)
        );
    }

    /// chown(2) changes only the root of the mount, not the directory beneath it.
    #[test]
    #[ignore = "started by mounts_work_without_root_in_a_user_namespace"]
    fn the_directory_beneath_a_mount_keeps_its_owner() {
        let cell = Cell::new();
        let target = cell.point("a");
        fs::create_dir_all(target.path()).unwrap();
        let owner = Owner { uid: 0, gid: 0 };
        let error =
            cell.rabbit().apply(&Step::SetOwner { target: target.clone(), owner }).unwrap_err();
        assert!(error.to_string().contains("is no longer mounted"), "{error}");
        assert_eq!(fs::metadata(Path::new(&target.path())).unwrap().uid(), 0);
    }

    #[test]
    #[ignore = "started by mounts_work_without_root_in_a_user_namespace"]
    fn fifty_mounts_run_in_parallel() {
        let cell = Cell::new();
        let first = cell.point("first");
        cell.plant_mount(&first);
        let mounts: Vec<_> =
            (0..50).map(|k| cell.bind(&first, &format!("tree/node-{k}"))).collect();
        let converger = storage::Converger::new(cell.rabbit());
        for wish in [Desired::Mounted, Desired::Unmounted] {
            let all: Vec<_> = mounts.iter().cloned().map(wish).collect();
            for result in converger.converge_all(&all) {
                result.unwrap_or_else(|error| panic!("{}", chain(&error)));
            }
        }
        assert_eq!(fs::read_dir(cell.directory.path().join("mnt")).unwrap().count(), 1);
    }
}

//! Tests file systems that the kernel keeps in use after umount(2), because of mounts or open files
//! in other mount namespaces.

use storage::{
    ConvergeError, Desired, Rejection,
    desired::{FileSystemKind, Mount, MountPoint},
    observed::Holders,
};

use super::*;
use crate::lab::{Keeper, with_only_lab};

/// Returns a mount whose root directory keeps root as its owner. The tests use the mount from processes in their own
/// user namespaces, which map only root, so that these processes have rights only over root's files.
fn of_root(fs: &FileSystem, target: MountPoint) -> Mount {
    Mount { owner: None, ..mount_of(fs, target) }
}

fn held(lab: &Lab, host: &str, mount: &Mount) -> Holders {
    let error = converge(&lab.compute(host), &Desired::Unmounted(mount.clone())).unwrap_err();
    match error {
        ConvergeError::Rejected(Rejection::StillInUse { holders, .. }) => holders,
        other => panic!("{}", chain(&other)),
    }
}

fn is_live(lab: &Lab, fs: &FileSystem) -> bool {
    let volume = lab.rabbit().observe(&Desired::FileSystemReady(fs.clone())).unwrap().volume;
    let device = &volume.unwrap().devices[0].path;
    std::path::Path::new("/sys/fs/xfs").join(device.file_name().unwrap()).exists()
}

/// The other mount namespace keeps the file system in use in one of three ways: by an open file, by a bind mount of a
/// directory, or by a working directory.
#[test]
fn an_xfs_that_another_mount_namespace_keeps_is_not_released() {
    let scripts = ["exec 3>AT/kept", "mkdir AT/d && mount --bind AT/d /mnt && cd /mnt", "cd AT"];
    for script in scripts {
        with_only_lab(|lab| {
            let (_, fs) = create_file_system(lab, 0);
            let mount = of_root(&fs, lab.point("wf-0"));
            settle(&lab.compute("compute-1"), &Desired::Mounted(mount.clone()));
            let at = mount.target.to_string();
            let keeper = Keeper::start(lab, "-Urm", &script.replace("AT", &at));
            for _ in 0..2 {
                let holders = held(lab, "compute-1", &mount);
                assert_eq!(holders.processes, [keeper.pid()], "{script}: {holders}");
                let (text, pid) = (holders.to_string(), keeper.pid());
                assert!(text.starts_with(&format!("process {pid} (sh, since ")), "{text}");
                assert!(text.contains(") in another mount namespace"), "{text}");
                assert!(is_live(lab, &fs));
            }
            drop(keeper);
            settle(&lab.compute("compute-1"), &Desired::Unmounted(mount));
            assert!(!is_live(lab, &fs));
        });
    }
}

/// Every container has an idle copy of the mount. The kernel removes the copy when the mount point is removed.
#[test]
fn an_idle_copy_of_a_mount_does_not_keep_the_volume() {
    with_only_lab(|lab| {
        let (_, fs) = create_file_system(lab, 0);
        let mount = of_root(&fs, lab.point("wf-0"));
        settle(&lab.compute("compute-1"), &Desired::Mounted(mount.clone()));
        let _keeper = Keeper::start(lab, "-Urm", "true");
        settle(&lab.compute("compute-1"), &Desired::Unmounted(mount));
        assert!(!is_live(lab, &fs));
    });
}

/// A raw device has no exclusive access: a process that has it open can still write to it.
#[test]
fn an_open_raw_device_is_not_released() {
    with_only_lab(|lab| {
        let namespace = allocate(lab, &allocation(0, SIZE, &["compute-1"]));
        let mut fs = file_system(lab, 0, &namespace.id);
        fs.kind = FileSystemKind::Raw;
        let mount = of_root(&fs, lab.point("raw-0"));
        settle(&lab.compute("compute-1"), &Desired::Mounted(mount.clone()));
        let keeper = Keeper::start(lab, "-m", &format!("exec 3<>{}", mount.target));
        for _ in 0..2 {
            let holders = held(lab, "compute-1", &mount);
            assert_eq!(holders.processes, [keeper.pid()], "{holders}");
        }
        drop(keeper);
        settle(&lab.compute("compute-1"), &Desired::Unmounted(mount));
    });
}

/// In the agent's own mount namespace umount(2) fails with EBUSY. The error names the holder, and does not
/// name a kernel thread.
#[test]
fn the_error_of_a_busy_mount_names_the_holder_with_its_start_time() {
    with_only_lab(|lab| {
        let (_, fs) = create_file_system(lab, 0);
        let mount = of_root(&fs, lab.point("wf-0"));
        let host = lab.compute("compute-1");
        settle(&host, &Desired::Mounted(mount.clone()));
        let keeper = Keeper::here(&format!("cd {}", mount.target));
        let error = converge(&host, &Desired::Unmounted(mount.clone())).unwrap_err();
        let ConvergeError::Step(failed) = &error else { panic!("{}", chain(&error)) };
        let StepError::Held { holders, .. } = &failed.source else { panic!("{}", chain(&error)) };
        assert_eq!(holders.processes, [keeper.pid()], "{holders}");
        assert!(chain(&error).contains("(sh, since "), "{}", chain(&error));
        drop(keeper);
        settle(&host, &Desired::Unmounted(mount));
    });
}

/// A service with its own mount namespace has copies of our mounts; the copies do not make umount(2) fail with EBUSY.
#[test]
fn the_error_of_a_busy_mount_names_its_users_and_not_the_owners_of_idle_copies() {
    with_only_lab(|lab| {
        let (_, fs) = create_file_system(lab, 0);
        let mount = of_root(&fs, lab.point("wf-0"));
        let host = lab.compute("compute-1");
        settle(&host, &Desired::Mounted(mount.clone()));
        let copy = Keeper::start(lab, "-m", "true");
        let keeper = Keeper::here(&format!("cd {}", mount.target));
        let error = converge(&host, &Desired::Unmounted(mount.clone())).unwrap_err();
        let ConvergeError::Step(failed) = &error else { panic!("{}", chain(&error)) };
        let StepError::Held { holders, .. } = &failed.source else { panic!("{}", chain(&error)) };
        assert_eq!(holders.processes, [keeper.pid()], "{holders}; a copy: {}", copy.pid());
        drop((keeper, copy));
        settle(&host, &Desired::Unmounted(mount));
    });
}

/// While a process uses the mount, the error names only this process and not the idle copy, because the copy may end
/// together with the process.
#[test]
fn an_idle_copy_is_named_only_when_no_process_uses_the_mount() {
    with_only_lab(|lab| {
        let (_, fs) = create_file_system(lab, 0);
        let mount = of_root(&fs, lab.point("wf-0"));
        settle(&lab.compute("compute-1"), &Desired::Mounted(mount.clone()));
        let at = &mount.target;
        let bound = format!("mkdir -p {at}/d && mount --bind {at}/d /mnt");
        let copy = Keeper::start(lab, "-m", &bound);
        let keeper = Keeper::start(lab, "-m", &format!("cd {at}"));
        assert_eq!(held(lab, "compute-1", &mount).processes, [keeper.pid()]);
        drop(keeper);
        assert_eq!(held(lab, "compute-1", &mount).processes, [copy.pid()]);
        drop(copy);
        settle(&lab.compute("compute-1"), &Desired::Unmounted(mount));
    });
}

/// Two objects have the same file system mounted on one node: the second mount does not delay the unmount of the first.
#[test]
fn another_mount_of_the_same_file_system_does_not_block_the_unmount() {
    with_only_lab(|lab| {
        let (_, fs) = create_file_system(lab, 0);
        let host = lab.compute("compute-1");
        let (first, other) = (of_root(&fs, lab.point("wf-0")), of_root(&fs, lab.point("wf-1")));
        settle(&host, &Desired::Mounted(first.clone()));
        settle(&host, &Desired::Mounted(other.clone()));
        settle(&host, &Desired::Unmounted(first));
        let keeper = Keeper::start(lab, "-Urm", &format!("cd {}", other.target));
        assert_eq!(held(lab, "compute-1", &other).processes, [keeper.pid()]);
        drop(keeper);
        settle(&host, &Desired::Unmounted(other));
    });
}

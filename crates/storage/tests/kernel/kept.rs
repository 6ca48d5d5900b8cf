//! What a kernel keeps alive after umount(2): mounts and open files in other mount namespaces.

use storage::{
    ConvergeError, Desired, Rejection,
    desired::{FileSystemKind, Mount, MountPoint},
    observed::Holders,
};

use super::*;
use crate::lab::{Keeper, with_only_lab};

/// A user in a namespace of their own is root there over nothing but what is theirs.
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

/// By an open file, by a bind mount of a directory, and by a working directory.
#[test]
fn an_xfs_that_lives_on_in_another_mount_namespace_is_not_let_go() {
    let ways = ["exec 3>AT/kept", "mkdir AT/d && mount --bind AT/d /mnt && cd /mnt", "cd AT"];
    for way in ways {
        with_only_lab(|lab| {
            let (_, fs) = made(lab, 0);
            let mount = of_root(&fs, lab.point("wf-0"));
            settle(&lab.compute("compute-1"), &Desired::Mounted(mount.clone()));
            let at = mount.target.to_string();
            let keeper = Keeper::start(lab, "-Urm", &way.replace("AT", &at));
            for _ in 0..2 {
                let holders = held(lab, "compute-1", &mount);
                assert_eq!(holders.processes, [keeper.pid()], "{way}: {holders}");
                let (told, pid) = (holders.to_string(), keeper.pid());
                assert!(told.starts_with(&format!("process {pid} (sh, since ")), "{told}");
                assert!(told.contains(") in another mount namespace"), "{told}");
                assert!(is_live(lab, &fs));
            }
            drop(keeper);
            settle(&lab.compute("compute-1"), &Desired::Unmounted(mount));
            assert!(!is_live(lab, &fs));
        });
    }
}

/// As every container has one. The kernel takes it away with the directory that it is on.
#[test]
fn the_mere_copy_of_a_mount_keeps_nothing() {
    with_only_lab(|lab| {
        let (_, fs) = made(lab, 0);
        let mount = of_root(&fs, lab.point("wf-0"));
        settle(&lab.compute("compute-1"), &Desired::Mounted(mount.clone()));
        let _keeper = Keeper::start(lab, "-Urm", "true");
        settle(&lab.compute("compute-1"), &Desired::Unmounted(mount));
        assert!(!is_live(lab, &fs));
    });
}

/// Nothing excludes anybody from a raw device: who has it open still writes to it.
#[test]
fn a_raw_device_that_is_open_is_not_let_go() {
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

/// In our own namespace umount(2) refuses; the holder is told, and no kernel thread is.
#[test]
fn who_works_in_a_mount_is_named_with_the_time_of_its_start() {
    with_only_lab(|lab| {
        let (_, fs) = made(lab, 0);
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

/// A service with a namespace of its own has copies of our mounts, which never make umount(2) busy.
#[test]
fn of_a_busy_mount_who_works_in_it_is_named_and_who_has_a_mere_copy_is_not() {
    with_only_lab(|lab| {
        let (_, fs) = made(lab, 0);
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

/// Its turn comes when nobody works in it any more: what nobody works in may end with what somebody does.
#[test]
fn of_what_is_still_in_use_a_mere_copy_is_named_only_when_nobody_works_in_it() {
    with_only_lab(|lab| {
        let (_, fs) = made(lab, 0);
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

/// A mount of another object on the same node is its right, and no reason to wait.
#[test]
fn another_mount_of_the_same_file_system_holds_nobody_up() {
    with_only_lab(|lab| {
        let (_, fs) = made(lab, 0);
        let host = lab.compute("compute-1");
        let (one, other) = (of_root(&fs, lab.point("wf-0")), of_root(&fs, lab.point("wf-1")));
        settle(&host, &Desired::Mounted(one.clone()));
        settle(&host, &Desired::Mounted(other.clone()));
        settle(&host, &Desired::Unmounted(one));
        let keeper = Keeper::start(lab, "-Urm", &format!("cd {}", other.target));
        assert_eq!(held(lab, "compute-1", &other).processes, [keeper.pid()]);
        drop(keeper);
        settle(&host, &Desired::Unmounted(other));
    });
}

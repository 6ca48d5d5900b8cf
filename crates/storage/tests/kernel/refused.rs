//! Mounts that the kernel refuses with an errno that says nothing: its log does.

use std::{path::Path, thread};

use super::*;

fn refusal(lab: &Lab, mount: &Mount) -> String {
    chain(&converge(&lab.rabbit(), &Desired::Mounted(mount.clone())).unwrap_err())
}

/// Unmounts `mount`, and waits until no mount namespace has its file system any more: a program of another test that started
/// meanwhile, in a namespace of its own, has a copy of the mount, and the kernel knows the UUID as long as it runs.
fn unmounted_everywhere(mount: &str) {
    let source = must("findmnt", &["--noheadings", "--output", "SOURCE", mount]);
    must("umount", &[mount]);
    let known = Path::new("/sys/fs/xfs").join(source.replace("/dev/", ""));
    for _ in 0..600 {
        if !known.exists() {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("{source} was unmounted a minute ago, and the kernel still has its file system");
}

#[test]
fn a_uuid_that_is_mounted_already_is_told_in_the_words_of_the_kernel() {
    with_lab(|lab| {
        let (namespace, fs) = made(lab, 0);
        let mount = mount_of(&fs, lab.point("a"));
        let path = |name: &str| lab.path().join(name).display().to_string();
        let (copy, twin) = (path("copy"), path("twin"));
        must("cp", &["--sparse=always", &lab.device(&namespace), &copy]);
        fs::create_dir(&twin).unwrap();
        must("mount", &["-o", "loop", &copy, &twin]);
        let told = refusal(lab, &mount);
        unmounted_everywhere(&twin);
        let device = lab.device(&namespace).replace("/dev/", "");
        let words = format!("(the kernel: XFS ({device}): Filesystem has duplicate UUID ");
        assert!(told.contains(&words) && told.contains("Invalid argument"), "{told}");
        settle(&lab.rabbit(), &Desired::Mounted(mount));
    });
}

#[test]
fn a_damaged_superblock_is_told_in_the_words_of_the_kernel() {
    with_lab(|lab| {
        let (namespace, fs) = made(lab, 0);
        let mount = mount_of(&fs, lab.point("a"));
        let device = lab.device(&namespace);
        let damage = ["-x", "-c", "sb 0", "-c", "write -d rblocks 99999999999"];
        must("xfs_db", &[&damage[..], &[&device]].concat());
        let told = refusal(lab, &mount);
        let words = format!("(the kernel: XFS ({}): ", device.replace("/dev/", ""));
        assert!(told.contains(&words) && told.contains("Structure needs cleaning"), "{told}");
    });
}

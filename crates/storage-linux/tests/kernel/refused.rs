//! Tests mounts that the kernel refuses with an ambiguous errno. The cause is in the kernel's log.

use std::{path::Path, thread};

use super::*;

fn refusal(lab: &Lab, mount: &Mount) -> String {
    chain(&converge(&lab.rabbit(), &Desired::Mounted(mount.clone())).unwrap_err())
}

/// Unmounts `mount`, and waits until no mount namespace has its file system. A program that another test started in its
/// own mount namespace has a copy of the mount; while that program runs, the kernel still counts the UUID as mounted.
#[expect(clippy::disallowed_methods, reason = "no event reports when the kernel releases the UUID")]
fn unmount_everywhere(mount: &str) {
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
fn a_duplicate_uuid_is_reported_in_the_words_of_the_kernel() {
    with_lab(|lab| {
        let (namespace, fs) = create_file_system(lab, 0);
        let mount = mount_of(&fs, lab.point("a"));
        let path = |name: &str| lab.path().join(name).display().to_string();
        let (copy, twin) = (path("copy"), path("twin"));
        must("cp", &["--sparse=always", &lab.device(&namespace), &copy]);
        fs::create_dir(&twin).unwrap();
        must("mount", &["-o", "loop", &copy, &twin]);
        let text = refusal(lab, &mount);
        unmount_everywhere(&twin);
        let device = lab.device(&namespace).replace("/dev/", "");
        let words = format!("(the kernel: XFS ({device}): Filesystem has duplicate UUID ");
        assert!(text.contains(&words) && text.contains("Invalid argument"), "{text}");
        settle(&lab.rabbit(), &Desired::Mounted(mount));
    });
}

#[test]
fn a_damaged_superblock_is_reported_in_the_words_of_the_kernel() {
    with_lab(|lab| {
        let (namespace, fs) = create_file_system(lab, 0);
        let mount = mount_of(&fs, lab.point("a"));
        let device = lab.device(&namespace);
        let damage = ["-x", "-c", "sb 0", "-c", "write -d rblocks 99999999999"];
        must("xfs_db", &[&damage[..], &[&device]].concat());
        let text = refusal(lab, &mount);
        let words = format!("(the kernel: XFS ({}): ", device.replace("/dev/", ""));
        assert!(text.contains(&words) && text.contains("Structure needs cleaning"), "{text}");
    });
}
